"""The commands about who may use a store and who did: `tenfold keys ...` and `tenfold audit`."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from tenfold.apps.cli.console import print_json, print_note, print_table, show
from tenfold.apps.cli.process import ExitCode
from tenfold.apps.cli.store_access import JsonOption, NamespaceOption, StoreOption, open_cli_store
from tenfold.apps.keyring import note_access
from tenfold.errors import NotFoundError
from tenfold.store.access import AccessKey, create_key, find_broken_record
from tenfold.store.base import Store
from tenfold.store.ids import convert_time, get_current_time
from tenfold.store.retention import parse_age, parse_size

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="A key: its name, or its id from `tenfold keys list`.")]


def register(app: typer.Typer) -> None:
    """Adds the group `keys` and its commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Makes and revokes the keys of persons and programs.",
        epilog="Example: tenfold keys create anna",
    )
    group.command("create", epilog="Example: tenfold keys create anna --namespace team --expires 90d")(add_key)
    group.command("list", epilog="Example: tenfold keys list")(list_keys)
    group.command("rotate", epilog="Example: tenfold keys rotate anna")(replace_key)
    group.command("revoke", epilog="Example: tenfold keys revoke anna")(revoke_key)
    app.add_typer(group, name="keys")


def add_key(  # noqa: PLR0913 - the options of the command
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who is to use the key.")],
    *,
    namespace: NamespaceOption = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="It can read, and write nothing.")] = False,
    expires: Annotated[str | None, typer.Option(metavar="AGE", help="It ends after 90d, 12h, 8w, 6m or 1y.")] = None,
    max_requests: Annotated[int, typer.Option(min=0, help="How many requests run at a time. 0: no limit.")] = 0,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="No request while its namespace takes more: 2GB, 500MB.")
    ] = None,
    max_jobs: Annotated[int, typer.Option(min=0, help="How many jobs of its namespace may wait. 0: no limit.")] = 0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Makes a key and prints it. It is shown this once: the store keeps a digest of it.

    The key sees one namespace. As soon as a store has a key, the gateway and the MCP server over HTTP need one.
    """
    now = get_current_time()
    key, text = create_key(name, namespace, now)
    key = replace(
        key,
        is_read_only=read_only,
        expires=now + parse_age(expires) * 1_000_000 if expires is not None else 0,
        max_requests=max_requests,
        max_bytes=parse_size(max_bytes) if max_bytes is not None else 0,
        max_jobs=max_jobs,
    )
    with open_cli_store(store, create=True) as place:
        if any(each.name == name and each.is_valid(now) for each in place.list_keys()):
            raise NotFoundError(f"there is a key of the name {name!r}: rotate or revoke it, or give another name")
        _save(place, key, "keys create")
    _print_key(key, text, json=json)


def list_keys(*, store: StoreOption = None, json: JsonOption = False) -> None:
    """Lists the keys: whose they are, what they see, and until when."""
    with open_cli_store(store) as place:
        keys = place.list_keys()
    now = get_current_time()
    if json:
        for key in keys:
            print_json(_describe(key, now))
        return
    if not keys:
        show("no key yet; `tenfold keys create NAME` makes one")
        return
    rows = [
        (
            key.name,
            key.id,
            key.namespace,
            "reads" if key.is_read_only else "reads and writes",
            _format_time(key.created),
            _format_time(key.expires) or "never",
            _format_quotas(key),
            _get_state(key, now),
        )
        for key in keys
    ]
    print_table(("name", "id", "namespace", "may", "made", "ends", "at most", "state"), rows)


def replace_key(key: KeyArgument, *, store: StoreOption = None, json: JsonOption = False) -> None:
    """Makes a new key in place of one, with the same rights and sessions. The old one ends at once."""
    with open_cli_store(store) as place:
        old = _find_key(place, key)
        new, text = create_key(old.name, old.namespace, get_current_time())
        changed = replace(old, digest=new.digest)
        text = text.replace(new.id, old.id, 1)
        _save(place, changed, "keys rotate")
    _print_key(changed, text, json=json)


def revoke_key(key: KeyArgument, *, store: StoreOption = None) -> None:
    """Ends a key. Gateways that run notice within seconds. Its sessions stay."""
    with open_cli_store(store) as place:
        old = _find_key(place, key)
        _save(place, replace(old, revoked=get_current_time()), "keys revoke")
    show(f"revoked: {old.name} ({old.id})")


def audit(
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check that no line was changed or taken out, and print nothing else.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Prints who read, searched, exported, undid, purged and changed rules or keys: when, from where, and what.

    A store with a key keeps this record. It can only be added to, and each line holds a hash over the one before. The
    words of a search and of messages are not in it.
    """
    with open_cli_store(store) as place:
        records = place.read_record()
    broken = find_broken_record(records)
    if not verify:
        if json:
            for each in records:
                print_json({name: getattr(each, name) for name in each.__struct_fields__ if name != "hash"})
        elif not records:
            show("nothing is recorded yet: a store with a key keeps a record; `tenfold keys create NAME` makes one")
        else:
            rows = [
                (str(r.number), _format_time(r.time), r.actor, r.source, r.action, r.namespace, r.target)
                for r in records
            ]
            print_table(("line", "time (UTC)", "who", "from", "what", "namespace", "of"), rows, fit="of")
    if broken:
        print_note(f"line {broken} of the record is not as it was written, or a line before it is missing", style="red")
        return ExitCode.FAILED
    if verify:
        show(f"{len(records):,} line{'' if len(records) == 1 else 's'}, each as it was written")
    return ExitCode.OK


def _save(place: Store, key: AccessKey, action: str) -> None:
    place.save_key(key)
    note_access(place, key.namespace, action, f"{key.name} ({key.id})")


def _find_key(place: Store, name: str) -> AccessKey:
    now = get_current_time()
    found = [key for key in place.list_keys() if name in (key.id, key.name) and key.is_valid(now)]
    if len(found) != 1:
        raise NotFoundError(f"no key {name!r} is in use: `tenfold keys list` lists them")
    return found[0]


def _print_key(key: AccessKey, text: str, *, json: bool) -> None:
    if json:
        print_json({**_describe(key, key.created), "key": text})
        return
    may = "reads" if key.is_read_only else "reads and writes"
    ends = f", ends {_format_time(key.expires)}" if key.expires else ""
    print_note(f"the key of {key.name} {may} the namespace {key.namespace}{ends}; it is shown this once:")
    typer.echo(text)


def _describe(key: AccessKey, now: int) -> dict[str, object]:
    names = (
        "id",
        "name",
        "namespace",
        "is_read_only",
        "created",
        "expires",
        "revoked",
        "max_requests",
        "max_bytes",
        "max_jobs",
    )
    return {**{name: getattr(key, name) for name in names}, "state": _get_state(key, now)}


def _format_quotas(key: AccessKey) -> str:
    quotas = ((key.max_requests, "at once"), (key.max_bytes, "bytes"), (key.max_jobs, "jobs"))
    return ", ".join(f"{most:,} {what}" for most, what in quotas if most)


def _get_state(key: AccessKey, now: int) -> str:
    return "revoked" if key.revoked else "in use" if key.is_valid(now) else "expired"


def _format_time(time: int) -> str:
    return convert_time(time).strftime("%Y-%m-%d %H:%M") if time else ""
