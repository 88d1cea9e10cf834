"""Reads the settings from a TOML file and the environment, and builds a policy from them.

    [tenfold]
    policy = "tail"                    # a preset, or a named instance from below
    model = "anthropic:claude-haiku-4-5"
    fallbacks = ["openai:gpt-4o-mini"]
    auto = true
    compact_at = "85%"                 # of what is free in the window, or tokens
    down_to = "40%"
    thrift = 0.0                       # up to 1: compact earlier and deeper, to pay less

    [tenfold.presets.tail]             # a preset's own settings
    reserve_tokens = 8192

    [tenfold.presets.careful]          # a named instance: what it does not say falls through to [tenfold]
    policy = "tiers"
    focus = "the database migration"

A table of another name belongs to an installed package, which says what it means in `[tenfold]`: see `plugins`.

`TENFOLD_POLICY`, `TENFOLD_MODEL`, `TENFOLD_FALLBACKS` (separated by commas), `TENFOLD_AUTO`, `TENFOLD_COMPACT_AT`,
`TENFOLD_DOWN_TO`, `TENFOLD_THRIFT`, `TENFOLD_FOCUS`, `TENFOLD_NAMESPACE` and `TENFOLD_REDACT_AT_REST` override the
file. A preset's own settings are the keywords of its function in `policies`. An unknown key or name is an error.
"""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from configparser import RawConfigParser
from functools import partial
from pathlib import Path
from typing import Any, cast, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.tool_calls import ToolNames
from tenfold.compaction.plan.pipeline import Stage
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.compaction.trigger.limits import Trigger
from tenfold.compaction.trigger.sizes import NamedSizes, SizedTrigger, parse_size
from tenfold.config.extensions import Extension
from tenfold.config.plugins import list_plugins, load_plugin
from tenfold.config.policies import POLICIES, PolicyFactory, get_preset
from tenfold.core.meter.counters import Counter
from tenfold.errors import BadInput, UsageError, suggest_nearest
from tenfold.store.base import DEFAULT_NAMESPACE

TomlValue = Any
"""A value in TOML. Each is checked against the type of its setting."""
TableTranslator = Callable[[Mapping[str, TomlValue], Mapping[str, TomlValue]], Mapping[str, TomlValue]]
"""Takes a table of its own and `[tenfold]`, and returns `[tenfold]` with what the table says beside it."""
ENVIRONMENT_KEYS = (
    *("policy", "model", "fallbacks", "auto", "compact_at", "down_to", "thrift", "focus", "namespace"),
    *("redact_at_rest", "store"),
)
CONFIG_VARIABLE = "TENFOLD_CONFIG"
"""The environment variable that names the settings file. Without it, `tenfold.toml` in the working folder is read."""


class CommonSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that every policy has.

    `stages` run before the policy's own; see `plugins` for their names. `model` and `fallbacks` write the summaries,
    named as in `find_model` of `models.choose`. If they are empty, code writes them; "auto" chooses by the agent's
    model. With `auto` False only a request compacts.
    `compact_at` and `down_to` are sizes in place of the policy's, in tokens or as shares of what is free in the window;
    `thrift` (0 to 1) compacts earlier and deeper, to pay less. `focus` is what summaries emphasize.
    `acting_tools` and `lookup_tools` are names of tools that change the world, or do not, against what they sound like.
    `archive` names what receives every Block besides the store; if it is empty, nothing does.
    `extensions` are a user's hooks and listeners. `store` is where the command keeps sessions, "" the usual
    file, and `namespace` the tenant whose sessions it works on. With `redact_at_rest` its store keeps no secrets: see
    `SqlStore`.
    """

    policy: str = "tenfold"
    model: str = ""
    fallbacks: tuple[str, ...] = ()
    auto: bool = True
    compact_at: int | float | str | None = None
    down_to: int | float | str | None = None
    thrift: float = 0.0
    focus: str = ""
    acting_tools: tuple[str, ...] = ()
    lookup_tools: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    trigger: str = ""
    counter: str = ""
    archive: str = ""
    extensions: tuple[str, ...] = ()
    store: str = ""
    namespace: str = DEFAULT_NAMESPACE
    redact_at_rest: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """The models that write the summaries, in the order in which they are tried."""
        return tuple(m for m in (self.model, *self.fallbacks) if m)

    @property
    def sizes(self) -> NamedSizes:
        """The sizes that are named in place of the policy's. Raises `UsageError` for what is no size."""
        at, to = (
            None if s is None else parse_size(n, s)
            for n, s in (("compact_at", self.compact_at), ("down_to", self.down_to))
        )
        return NamedSizes(at, to, self.thrift)


_COMMON_KEYS = tuple(field.name for field in msgspec.structs.fields(CommonSettings))


class Config(Struct, frozen=True):
    """The settings as they were read.

    `common` is `[tenfold]`, overridden by the environment. `presets` are the tables under it. `where` names the source,
    and `model_table` the table that says which model writes, "" where that is a variable of the environment.
    `gateway` and `jobs` are the tables `[tenfold.gateway]` and `[tenfold.jobs]`, which those parts read. `flags` are
    settings from a command line, which come before everything else.
    """

    common: CommonSettings
    presets: Mapping[str, Mapping[str, TomlValue]]
    where: str
    model_table: str = "[tenfold]"
    gateway: Mapping[str, TomlValue] = {}
    jobs: Mapping[str, TomlValue] = {}
    flags: Mapping[str, TomlValue] = {}

    def build_policy(self, counter: Counter, name: str = "") -> Policy:
        """Builds the policy `name` (default: the configured one) with its settings.

        Raises `UsageError` for an unknown name or a wrong setting.
        """
        name = name or self.common.policy
        common = self.get_common(name)
        if common.counter:
            counter = cast("Counter", load_plugin("counters", common.counter))
        make, knobs = self._read_own_settings(name)
        return _apply_common(make(counter, **knobs), common)

    def get_common(self, name: str = "") -> CommonSettings:
        """Returns the common settings as they apply to the policy `name` (default: the configured one)."""
        name = name or self.common.policy
        everywhere = {key: getattr(self.common, key) for key in _COMMON_KEYS}
        own = self._list_own_common(name)
        return _convert_common({**everywhere, **own, **self.flags}, f"[tenfold.presets.{name}] in {self.where}")

    def check(self) -> None:
        """Raises `UsageError` for a wrong setting of any preset or named instance, and for an unknown policy."""
        for name in (*self.presets, self.common.policy):
            self._read_own_settings(name)
            _convert_common(self._list_own_common(name), f"[tenfold.presets.{name}] in {self.where}")

    def _list_own_common(self, name: str) -> dict[str, TomlValue]:
        """Returns the common settings that a preset or a named instance has in its table."""
        table = self._merge_tables(name)
        return {key: table[key] for key in _COMMON_KEYS if key in table and key != "policy"}

    def _merge_tables(self, name: str) -> dict[str, TomlValue]:
        """Returns what the table of a preset or of a named instance says; an instance inherits from its preset."""
        table = self.presets.get(name, {})
        return {**self.presets.get(str(table.get("policy", name)), {}), **table}

    def _read_own_settings(self, name: str) -> tuple[PolicyFactory, dict[str, TomlValue]]:
        """Returns the function that builds a policy, and its own settings, converted."""
        preset = str(self.presets.get(name, {}).get("policy", name))
        if preset in self.presets and preset not in POLICIES:
            near = suggest_nearest(preset, POLICIES)
            raise UsageError(
                f"[tenfold.presets.{preset}] is no preset and does not say with `policy` which one it is{near}"
            )
        make = get_preset(preset, instances=self.presets)
        known = get_preset_settings(make)
        out: dict[str, TomlValue] = {}
        for key, value in self._merge_tables(name).items():
            if key in _COMMON_KEYS:
                continue
            if key not in known:
                near = suggest_nearest(key, [*known, *_COMMON_KEYS])
                raise UsageError(f"{self.where}: {preset} has no setting {key!r}{near}")
            try:
                out[key] = msgspec.convert(value, known[key])
            except msgspec.ValidationError as exc:
                raise UsageError(f"{self.where}: the setting {key!r} of {preset} is wrong: {exc}") from exc
        return make, out

    def explain_model_setting(self, model: str, name: str = "") -> str:
        """Says what to write, and where, so that `model` writes the summaries of the policy `name`."""
        policy_name = name or self.common.policy
        is_own = "model" in self.presets.get(policy_name, {})
        table = f"[tenfold.presets.{policy_name}]" if is_own else self.model_table
        return (
            f'write the line `model = "{model}"` under {table} in {self.where}'
            if table
            else f"set TENFOLD_MODEL={model}"
        )

    def load_archive(self, name: str = "") -> Any:  # noqa: ANN401 - the protocol stands in `session.compactor`, above
        """Loads the archive of that policy, for `Session(..., archive=)`. None if only the store keeps Blocks."""
        reference = self.get_common(name).archive
        return load_plugin("archives", reference) if reference else None

    def load_extensions(self, name: str = "") -> tuple[Extension, ...]:
        """Loads the named extensions in order, for an `Agent` or `Answerer.with_extensions`."""
        return tuple(cast("Extension", load_plugin("extensions", one)) for one in self.get_common(name).extensions)


def load_settings(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None, flags: Mapping[str, TomlValue] = {}
) -> Config:
    """Reads the settings file at `path` (default: `TENFOLD_CONFIG`, else ./tenfold.toml if it exists).

    `flags` are common settings from a command line, which come before the environment and the whole file.
    Raises `BadInput` if a named file is missing or is not TOML, and `UsageError` for a wrong key or value.
    """
    environ = os.environ if environ is None else environ
    named = path or environ.get(CONFIG_VARIABLE)
    place = Path(named or "tenfold.toml")
    table: dict[str, TomlValue] = {}
    where, model_table = "the environment", "[tenfold]"
    if named or place.is_file():
        where = str(place)
        table, model_table = _read_table(place)
    presets = table.pop("presets", {})
    if not isinstance(presets, dict) or not all(isinstance(one, dict) for one in presets.values()):
        raise UsageError(f"[tenfold.presets] in {where} holds tables, one for each preset or named instance")
    apart = {name: table.pop(name, {}) for name in ("gateway", "jobs")}
    for name, own in apart.items():
        if not isinstance(own, dict):
            raise UsageError(f"[tenfold.{name}] in {where} is a table")
    for key in ENVIRONMENT_KEYS:
        text = environ.get(f"TENFOLD_{key.upper()}")
        if text is not None:
            table[key] = _parse_variable(key, text)
    model_table = "" if "TENFOLD_MODEL" in environ else model_table
    common = _convert_common({**table, **flags}, f"[tenfold] in {where}")
    config = Config(common, presets, where, model_table, flags=flags, **apart)
    config.check()
    return config


DEFAULT_CONFIG = Config(CommonSettings(), {}, "no settings file")
"""The settings if there is neither a file nor a variable."""


def build_policy(name: str, counter: Counter, *, models: Sequence[str] = (), **settings: TomlValue) -> Policy:
    """Builds a preset with its published settings and the models that write its summaries, without a file.

    `settings` are others of `CommonSettings`. Raises `UsageError` for a wrong one.

        build_policy("tenfold", counter, compact_at="60%", down_to=40_000)
    """
    common = _convert_common({"model": "".join(models[:1]), "fallbacks": list(models[1:]), **settings}, "build_policy")
    return _apply_common(get_preset(name)(counter), common)


class LivePolicy:
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
        flags: Mapping[str, TomlValue] = {},
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Reads the file. `flags` come before it and the environment. Raises what `load_settings` raises."""
        self._counter, self._report = counter, report
        self._load = partial(load_settings, path, environ=environ, flags=flags)
        named = path or (os.environ if environ is None else environ).get(CONFIG_VARIABLE)
        self._file = Path(named or "tenfold.toml")
        self._last_stamp = self._read_stamp()
        self._policy = self._load().build_policy(counter)

    def __call__(self) -> Policy:
        """Returns the policy as the file describes it now."""
        stamp = self._read_stamp()
        if stamp != self._last_stamp:
            self._last_stamp = stamp
            try:
                self._policy = self._load().build_policy(self._counter)
            except (UsageError, BadInput) as exc:
                if self._report is not None:
                    self._report(f"the settings changed and cannot be used, the ones before stay in force: {exc}")
        return self._policy

    def _read_stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = self._file.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _apply_common(policy: Policy, common: CommonSettings) -> Policy:
    """Applies the common settings to a policy."""
    models = common.models or policy.summary.models
    stages = tuple(cast("Stage", load_plugin("stages", name)) for name in common.stages)
    trigger = cast("Trigger", load_plugin("triggers", common.trigger)) if common.trigger else policy.trigger
    focus = common.focus or policy.summary.instructions
    own = policy.summary.tools
    tools = ToolNames(common.acting_tools or own.acting, common.lookup_tools or own.lookups)
    if common.sizes != NamedSizes():
        trigger = SizedTrigger(trigger, common.sizes)
    return replace(
        policy,
        summary=with_prompts(replace(policy.summary, models=models, instructions=focus, tools=tools)),
        stages=(*stages, *policy.stages),
        trigger=trigger,
        auto=policy.auto and common.auto,
    )


def get_preset_settings(make: PolicyFactory) -> dict[str, type]:
    """Returns a preset's own settings: the keywords of its function, with their types."""
    hints = get_type_hints(make)
    names = [n for n, p in inspect.signature(make).parameters.items() if p.kind is p.KEYWORD_ONLY and n != "summary"]
    return {name: hints[name] for name in names}


def _read_table(path: Path) -> tuple[dict[str, TomlValue], str]:
    """Reads the table `[tenfold]`. Returns also the name of the table that says which model writes."""
    try:
        document = tomllib.loads(path.read_text("utf-8-sig"))  # editors of Windows begin a file with a mark
    except OSError as exc:
        raise BadInput(
            f"the settings file {path} cannot be read ({exc.strerror}): name another with {CONFIG_VARIABLE}"
        ) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise BadInput(f"the settings file {path} is not TOML: {exc}") from exc
    translators = list_plugins("tables")
    tables = ("tenfold", *translators)
    for name in document:
        if name not in tables:
            raise UsageError(f"{path} has no table [{name}]{suggest_nearest(name, tables)}")
        if not isinstance(document[name], dict):
            raise UsageError(f"{path}: [{name}] is a table")
    table: dict[str, TomlValue] = document.get("tenfold", {})
    model_table = "[tenfold]"
    for name in sorted(translators.keys() & document.keys()):
        before, translate = table, cast("TableTranslator", load_plugin("tables", name))
        try:
            table = dict(translate(document[name], before))
        except (msgspec.ValidationError, UsageError) as exc:
            raise UsageError(f"[{name}] in {path}: {exc}") from exc
        model_table = model_table if "model" in before else f"[{name}]"
    return table, model_table


def _convert_common(table: Mapping[str, TomlValue], where: str) -> CommonSettings:
    for key in table:
        if key not in _COMMON_KEYS:
            raise UsageError(f"{where} has no setting {key!r}{suggest_nearest(key, [*_COMMON_KEYS, 'presets'])}")
    try:
        common = msgspec.convert(dict(table), CommonSettings)
        _ = common.sizes
    except (msgspec.ValidationError, UsageError) as exc:
        raise UsageError(f"{where}: {exc}") from exc
    return common


def _parse_variable(key: str, text: str) -> TomlValue:
    match key:
        case "auto" | "redact_at_rest":
            if text.lower() not in RawConfigParser.BOOLEAN_STATES:
                raise UsageError(f"TENFOLD_{key.upper()} is {text!r}: say true or false")
            return RawConfigParser.BOOLEAN_STATES[text.lower()]
        case "thrift":
            try:
                return float(text)
            except ValueError as exc:
                raise UsageError(f"TENFOLD_THRIFT is {text!r}: it is a number from 0 (off) to 1") from exc
        case "fallbacks":
            return [name.strip() for name in text.split(",") if name.strip()]
        case _:
            return text
