"""Reads the settings from a TOML file and the environment, and builds a policy from them.

    [tenfold]
    policy = "tail"                    # a preset, or a named instance from below
    model = "anthropic:claude-haiku-4-5"
    fallbacks = ["openai:gpt-4o-mini"]
    auto = true

    [tenfold.presets.tail]             # a preset's own settings
    reserve_tokens = 8192

    [tenfold.presets.careful]          # a named instance: what it does not say falls through to [tenfold]
    policy = "tiers"
    focus = "the database migration"

`TENFOLD_POLICY`, `TENFOLD_MODEL`, `TENFOLD_FALLBACKS` (separated by commas), `TENFOLD_AUTO` and `TENFOLD_FOCUS`
override the file. A preset's own settings are the keywords of its function in `policies`. An unknown key or name is an
error.
"""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.archive import Archive
from tenfold.errors import BadInput, UsageError
from tenfold.extensions import Extension
from tenfold.meter.counters import Counter
from tenfold.plan.plan import Stage
from tenfold.plugins import found, published
from tenfold.policies import POLICIES
from tenfold.policy import Policy
from tenfold.summarize.edge import with_prompts
from tenfold.trigger.triggers import Trigger

Value = Any
"""A value in TOML. Each is checked against the type of its setting."""
VARIABLES = ("policy", "model", "fallbacks", "auto", "focus")
FILE = "TENFOLD_CONFIG"
"""The environment variable that names the settings file. Without it, `tenfold.toml` in the working folder is read."""


class Common(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that every policy has.

    `stages` run before the policy's own; see `plugins` for their names. `model` and `fallbacks` write the summaries. If
    they are empty, code writes them; for the command, "auto" chooses by the agent's model. `focus` is what summaries
    emphasize. `archive` receives every batch of a policy that makes batches; if it is empty, only the store keeps them.
    `extensions` are a user's hooks and listeners.
    """

    policy: str = "tenfold"
    model: str = ""
    fallbacks: tuple[str, ...] = ()
    auto: bool = True
    focus: str = ""
    stages: tuple[str, ...] = ()
    trigger: str = ""
    counter: str = ""
    archive: str = ""
    extensions: tuple[str, ...] = ()


_COMMON = tuple(field.name for field in msgspec.structs.fields(Common))


class Config(Struct, frozen=True):
    """The settings as they were read.

    `common` is `[tenfold]`, overridden by the environment. `presets` are the tables under it. `where` names the source.
    """

    common: Common
    presets: Mapping[str, Mapping[str, Value]]
    where: str

    def policy(self, counter: Counter, name: str = "") -> Policy:
        """Builds the policy `name` (default: the configured one) with its settings.

        Raises `UsageError` for an unknown name or a wrong setting.
        """
        policy_name = name or self.common.policy
        table = self.presets.get(policy_name, {})
        base = str(table.get("policy", policy_name))
        make = _preset(base, self.presets)
        knobs = {key: value for key, value in table.items() if key not in _COMMON}
        common = self.common_of(policy_name)
        if base != policy_name:  # a named instance inherits the own settings of its preset
            knobs = {**{k: v for k, v in self.presets.get(base, {}).items() if k not in _COMMON}, **knobs}
        if common.counter:
            counter = cast("Counter", found("counters", common.counter))
        policy = make(counter, **_checked(base, make, knobs, self.where))
        return _outfitted(policy, common)

    def common_of(self, name: str = "") -> Common:
        """Returns the common settings as they apply to the policy `name` (default: the configured one)."""
        policy_name = name or self.common.policy
        table = self.presets.get(policy_name, {})
        own = {**self.presets.get(str(table.get("policy", policy_name)), {}), **table}
        own = {key: value for key, value in own.items() if key in _COMMON and key != "policy"}
        return _common({**_given(self.common), **own}, f"[tenfold.presets.{policy_name}] in {self.where}")

    def archive(self, name: str = "") -> Archive | None:
        """Loads the archive of that policy, for `Session(..., archive=)`. None if only the store keeps batches."""
        reference = self.common_of(name).archive
        return cast("Archive", found("archives", reference)) if reference else None

    def extensions(self, name: str = "") -> tuple[Extension, ...]:
        """Loads the named extensions in order, for an `Agent` or `apply_extensions(answerer, ...)`."""
        return tuple(cast("Extension", found("extensions", one)) for one in self.common_of(name).extensions)


def read(path: str | Path | None = None, *, environ: Mapping[str, str] | None = None) -> Config:
    """Reads the settings file at `path` (default: `TENFOLD_CONFIG`, else ./tenfold.toml if it exists).

    Raises `BadInput` if a named file is missing or is not TOML, and `UsageError` for a wrong key or value.
    """
    environ = os.environ if environ is None else environ
    named = path or environ.get(FILE)
    place = Path(named or "tenfold.toml")
    table: dict[str, Value] = {}
    where = "the environment"
    if named or place.is_file():
        where = str(place)
        table = _table(place)
    presets = table.pop("presets", {})
    if not isinstance(presets, dict) or not all(isinstance(one, dict) for one in presets.values()):
        raise UsageError(f"[tenfold.presets] in {where} holds tables, one for each preset or named instance")
    for key in VARIABLES:
        text = environ.get(f"TENFOLD_{key.upper()}")
        if text is not None:
            table[key] = _from_environment(key, text)
    config = Config(_common(table, f"[tenfold] in {where}"), presets, where)
    for name, one in presets.items():
        _check_preset(name, one, config)
    _preset(str(presets.get(config.common.policy, {}).get("policy", config.common.policy)), presets)
    return config


PUBLISHED = Config(Common(), {}, "no settings file")
"""The settings if there is neither a file nor a variable."""


def policy_for(name: str, counter: Counter, *, models: Sequence[str] = ()) -> Policy:
    """Builds a preset with its published settings and the models that write its summaries, without a file."""
    common = Common(name, "".join(models[:1]), tuple(models[1:]))
    return _outfitted(_preset(name, {})(counter), common)


class Live:
    """A policy that follows its settings file. Give it to a session in place of a policy.

    Each call checks the file and reads it again if it has changed. If the file can no longer be read, the last good
    policy stays in force, and `report` is told why, once per change.
    """

    def __init__(
        self,
        counter: Counter,
        path: str | Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Reads the file. Raises what `load_settings` raises."""
        self._counter, self._environ, self._report = counter, environ, report
        named = path or (os.environ if environ is None else environ).get(FILE)
        self._path, self._place = path, Path(named or "tenfold.toml")
        self._seen = self._stamp()
        self._policy = read(path, environ=environ).policy(counter)

    def __call__(self) -> Policy:
        """Returns the policy as the file describes it now."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._policy = read(self._path, environ=self._environ).policy(self._counter)
            except (UsageError, BadInput) as exc:
                if self._report is not None:
                    self._report(f"the settings changed and cannot be used, the ones before stay in force: {exc}")
        return self._policy

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = self._place.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _outfitted(policy: Policy, common: Common) -> Policy:
    """Applies the common settings to a policy."""
    models = tuple(m for m in (common.model, *common.fallbacks) if m) or policy.summary.models
    stages = tuple(cast("Stage", found("stages", name)) for name in common.stages)
    trigger = cast("Trigger", found("triggers", common.trigger)) if common.trigger else policy.trigger
    focus = common.focus or policy.summary.instructions
    return replace(
        policy,
        summary=with_prompts(replace(policy.summary, models=models, instructions=focus)),
        stages=(*stages, *policy.stages),
        trigger=trigger,
        auto=policy.auto and common.auto,
    )


def _preset(name: str, instances: Iterable[str]) -> Callable[..., Policy]:
    preset = POLICIES.get(name)
    if preset is not None:
        return preset
    installed = published("policies")
    if name in installed or ":" in name:
        return cast("Callable[..., Policy]", found("policies", name))
    if name in instances:
        near = nearest(name, [*POLICIES, *installed])
        raise UsageError(f"[tenfold.presets.{name}] is no preset and does not say with `policy` which one it is{near}")
    raise UsageError(f"no policy is called {name!r}{nearest(name, [*POLICIES, *installed, *instances])}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error sentence about an unknown name: the nearest valid name, and all of them."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    if not names:
        return ": there is none yet"
    return (f": did you mean {near[0]!r}?" if near else ".") + f" There are: {', '.join(names)}"


def knobs_of(make: Callable[..., Policy]) -> dict[str, type]:
    """Returns a preset's own settings: the keywords of its function, with their types."""
    hints = get_type_hints(make)
    names = [n for n, p in inspect.signature(make).parameters.items() if p.kind is p.KEYWORD_ONLY and n != "summary"]
    return {name: hints[name] for name in names}


def _checked(preset: str, make: Callable[..., Policy], given: Mapping[str, Value], where: str) -> dict[str, Value]:
    known = knobs_of(make)
    out: dict[str, Value] = {}
    for key, value in given.items():
        if key not in known:
            raise UsageError(f"{where}: {preset} has no setting {key!r}{nearest(key, [*known, *_COMMON])}")
        try:
            out[key] = msgspec.convert(value, known[key])
        except msgspec.ValidationError as exc:
            raise UsageError(f"{where}: the setting {key!r} of {preset} is wrong: {exc}") from exc
    return out


def _check_preset(name: str, table: Mapping[str, Value], config: Config) -> None:
    base = str(table.get("policy", name))
    make = _preset(base, config.presets)
    _checked(base, make, {k: v for k, v in table.items() if k not in _COMMON}, config.where)
    _common({k: v for k, v in table.items() if k in _COMMON}, f"[tenfold.presets.{name}] in {config.where}")


def _table(place: Path) -> dict[str, Value]:
    try:
        document = tomllib.loads(place.read_text(encoding="utf-8"))
    except OSError as exc:
        raise BadInput(f"the settings file {place} cannot be read ({exc.strerror}): name another with {FILE}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise BadInput(f"the settings file {place} is not TOML: {exc}") from exc
    for name in document:
        if name != "tenfold":
            raise UsageError(f"{place} has no table [{name}]{nearest(name, ['tenfold'])}")
    table = document.get("tenfold", {})
    if not isinstance(table, dict):
        raise UsageError(f"{place}: [tenfold] is a table")
    return table


def _common(table: Mapping[str, Value], where: str) -> Common:
    for key in table:
        if key not in _COMMON:
            raise UsageError(f"{where} has no setting {key!r}{nearest(key, [*_COMMON, 'presets'])}")
    try:
        return msgspec.convert(dict(table), Common)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{where}: {exc}") from exc


def _given(common: Common) -> dict[str, Value]:
    return {name: getattr(common, name) for name in _COMMON}


def _from_environment(key: str, said: str) -> Value:
    match key:
        case "auto":
            if said.lower() not in ("0", "1", "true", "false", "yes", "no", "on", "off"):
                raise UsageError(f"TENFOLD_AUTO is {said!r}: say true or false")
            return said.lower() in ("1", "true", "yes", "on")
        case "fallbacks":
            return [name.strip() for name in said.split(",") if name.strip()]
        case _:
            return said
