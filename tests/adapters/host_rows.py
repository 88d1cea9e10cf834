"""The frameworks with an adapter: what each is called, what it needs, and how it is told where the provider is."""

from __future__ import annotations

from msgspec import Struct


class HostRow(Struct, frozen=True):
    """A framework. `file` is its example in examples/integrations, and `modules` what has to be installed for it.

    `own` is its own compaction, "" if it has none. `package` is what pip installs, if it is not called like the
    framework. `variables` are the environment variables with the provider's address, for which {url} stands.
    """

    name: str
    title: str
    file: str
    modules: tuple[str, ...]
    extension_point: str
    own: str = ""
    package: str = ""
    variables: tuple[tuple[str, str], ...] = (
        ("OPENAI_BASE_URL", "{url}/v1"),
        ("OPENAI_API_BASE", "{url}/v1"),
        ("OPENAI_API_KEY", "nothing"),
    )

    def configure(self, url: str) -> dict[str, str]:
        """Returns the variables for a provider at this address."""
        return {name: value.format(url=url) for name, value in self.variables}


HOSTS: tuple[HostRow, ...] = (
    HostRow(
        "langchain",
        "LangChain, LangGraph",
        "langchain_agent",
        ("langchain", "langchain_openai"),
        "AgentMiddleware.wrap_model_call",
        own="SummarizationMiddleware",
    ),
    HostRow(
        "agno",
        "Agno",
        "agno_agent",
        ("agno", "openai"),
        "Model.invoke, Model.response",
        own="Compaction, CompressionManager",
        variables=(("OPENAI_BASE_URL", "{url}/v1"), ("OPENAI_API_KEY", "nothing"), ("AGNO_TELEMETRY", "false")),
    ),
    HostRow(
        "crewai",
        "CrewAI",
        "crewai_agent",
        ("crewai",),
        "BaseLLM.call",
        own="respect_context_window",
        variables=(
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_API_KEY", "nothing"),
            ("CREWAI_DISABLE_TELEMETRY", "true"),
            ("CREWAI_TRACING_ENABLED", "false"),
            ("CREWAI_DISABLE_VERSION_CHECK", "true"),
            ("OTEL_SDK_DISABLED", "true"),
        ),
    ),
    HostRow(
        "google-adk",
        "Google ADK",
        "google_adk_agent",
        ("google", "google.adk"),
        "BasePlugin.before_model_callback",
        own="EventsCompactionConfig",
        variables=(("GOOGLE_GEMINI_BASE_URL", "{url}"), ("GOOGLE_API_KEY", "nothing")),
    ),
    HostRow(
        "strands",
        "Strands Agents",
        "strands_agent",
        ("strands", "openai"),
        "ConversationManager, InvokeModelStage",
        own="SummarizingConversationManager",
        package="strands-agents",
    ),
    HostRow(
        "openhands",
        "OpenHands SDK",
        "openhands_agent",
        ("openhands.sdk",),
        "CondenserBase.condense",
        own="LLMSummarizingCondenser",
        variables=(
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_API_KEY", "nothing"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("OPENHANDS_SUPPRESS_BANNER", "1"),
        ),
        package="openhands-sdk",
    ),
    HostRow(
        "openai-agents",
        "OpenAI Agents SDK",
        "openai_agents_agent",
        ("agents", "agents.run_config"),
        "Session, RunConfig.call_model_input_filter",
        own="SessionSettings, ToolOutputTrimmer",
        variables=(
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_API_KEY", "nothing"),
            ("OPENAI_AGENTS_DISABLE_TRACING", "1"),
        ),
    ),
    HostRow(
        "haystack",
        "Haystack",
        "haystack_agent",
        ("haystack",),
        "hooks: before_llm, after_run",
        own="SummarizationCompactor",
        package="haystack-ai",
        variables=(
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_API_KEY", "nothing"),
            ("HAYSTACK_TELEMETRY_ENABLED", "False"),
        ),
    ),
    HostRow(
        "inspect-ai",
        "Inspect",
        "inspect_ai_agent",
        ("inspect_ai", "openai"),
        "react(model=...), CompactionStrategy",
        own="CompactionSummary",
    ),
    HostRow(
        "smolagents", "smolagents", "smolagents_agent", ("smolagents",), "step_callbacks, write_memory_to_messages"
    ),
    HostRow(
        "agent-framework",
        "Microsoft Agent Framework",
        "agent_framework_agent",
        ("agent_framework", "agent_framework_openai"),
        "ContextProvider.before_run",
        own="ContextWindowCompactionStrategy",
        package="agent-framework-core",
    ),
    HostRow(
        "llama-index",
        "LlamaIndex",
        "llama_index_agent",
        ("llama_index", "llama_index.llms.openai"),
        "BaseMemory",
        own="Memory",
        package="llama-index-core",
    ),
    HostRow(
        "litellm",
        "LiteLLM",
        "litellm_agent",
        ("litellm",),
        "CustomLogger.async_pre_call_hook, async_pre_call_deployment_hook",
        own="trim_messages",
        variables=(
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_API_KEY", "nothing"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ),
    ),
    HostRow(
        "dspy",
        "DSPy",
        "dspy_agent",
        ("dspy",),
        "ReAct, before each call of its modules",
        own="ReAct.truncate_trajectory",
        variables=(
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_API_KEY", "nothing"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ),
    ),
    HostRow(
        "hermes", "Hermes Agent", "hermes_agent", ("run_agent", "hermes_state"), "ContextEngine", package="hermes-agent"
    ),
    HostRow(
        "pydantic-ai",
        "pydantic-ai",
        "pydantic_ai_agent",
        ("pydantic_ai",),
        "AbstractCapability",
        package="pydantic-ai-slim",
    ),
)
