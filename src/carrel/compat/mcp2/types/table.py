"""Rows of the models of ``mcp_types`` that differ from the table of ``mcp.types`` 1.x, or are new.

The format of the tables is in ``carrel.compat.type_table``.
"""

__all__ = ["ALIASES", "MESSAGES", "MODELS", "REMOVED"]

MODELS = """
Icon: src: str; mime_type: str?; sizes: list[str]?; theme: IconTheme?
Implementation(BaseMetadata): version: str; description: str?; website_url: str?; icons: list[Icon]?
Annotations: audience: list[Role]?; priority: Annotated[float, Field(ge=0.0, le=1.0)]?; last_modified: str?
ClientCapabilities: experimental: dict[str, dict[str, Any]]?; sampling: SamplingCapability?; elicitation:
    ElicitationCapability?; roots: RootsCapability?; extensions: dict[str, dict[str, Any]]?; tasks:
    ClientTasksCapability?
ServerCapabilities: experimental: dict[str, dict[str, Any]]?; logging: LoggingCapability?; prompts:
    PromptsCapability?; resources: ResourcesCapability?; tools: ToolsCapability?; completions:
    CompletionsCapability?; extensions: dict[str, dict[str, Any]]?; tasks: ServerTasksCapability?
UnsupportedProtocolVersionErrorData: supported: list[str]; requested: str
MissingRequiredClientCapabilityErrorData: required_capabilities: ClientCapabilities
InitializeRequestParams(RequestParams): protocol_version: str; capabilities: ClientCapabilities; client_info:
    Implementation
InitializeResult(Result): protocol_version: str; capabilities: ServerCapabilities; server_info: Implementation;
    instructions: str?
DiscoverResult(CacheableResult): supported_versions: list[str]; capabilities: ServerCapabilities; instructions: str?;
    result_type: ResultType = "complete"
TaskMetadata: ttl: int?
Task: task_id: str; status: TaskStatus; status_message: str?; created_at: str; last_updated_at: str; ttl: int | None;
    poll_interval: int?
ListResourcesResult(PaginatedResult, CacheableResult): resources: list[Resource]; result_type: ResultType = "complete"
ListResourceTemplatesResult(PaginatedResult, CacheableResult): resource_templates: list[ResourceTemplate];
    result_type: ResultType = "complete"
InputResponseRequestParams(RequestParams): input_responses: InputResponses?; request_state: str?
ReadResourceRequestParams(InputResponseRequestParams): uri: str
ReadResourceResult(CacheableResult): contents: list[TextResourceContents | BlobResourceContents]; result_type:
    ResultType = "complete"
SubscriptionFilter(OpenModel): tools_list_changed: bool?; prompts_list_changed: bool?; resources_list_changed: bool?;
    resource_subscriptions: list[str]?
SubscriptionsListenRequestParams(RequestParams): notifications: SubscriptionFilter
SubscriptionsAcknowledgedNotificationParams(NotificationParams): notifications: SubscriptionFilter
SubscriptionsListenResult(Result): result_type: ResultType = "complete"
PromptArgument(BaseMetadata): description: str?; required: bool?
ListPromptsResult(PaginatedResult, CacheableResult): prompts: list[Prompt]; result_type: ResultType = "complete"
GetPromptRequestParams(InputResponseRequestParams): name: str; arguments: dict[str, str]?
ToolResultContent: type: Literal["tool_result"]; tool_use_id: str; content: list[ContentBlock] = [];
    structured_content: Any?; is_error: bool?; meta
GetPromptResult(Result): description: str?; messages: list[PromptMessage]; result_type: ResultType = "complete"
Tool(BaseMetadata): description: str?; input_schema: dict[str, Any]; execution: ToolExecution?; output_schema:
    dict[str, Any]?; icons: list[Icon]?; annotations: ToolAnnotations?; meta
ListToolsResult(PaginatedResult, CacheableResult): tools: list[Tool]; result_type: ResultType = "complete"
CallToolRequestParams(InputResponseRequestParams): name: str; arguments: dict[str, Any]?; task: TaskMetadata?
CallToolResult(Result): content: list[ContentBlock]; structured_content: Any?; is_error: bool = False; result_type:
    ResultType = "complete"
PromptReference: type: Literal["ref/prompt"]; name: str; title: str?
CompleteResult(Result): completion: Completion; result_type: ResultType = "complete"
CreateMessageRequestParams(RequestParams): messages: list[SamplingMessage]; model_preferences: ModelPreferences?;
    system_prompt: str?; include_context: IncludeContext?; temperature: float?; max_tokens: int; stop_sequences:
    list[str]?; metadata: dict[str, Any]?; tools: list[Tool]?; tool_choice: ToolChoice?; task: TaskMetadata?
ElicitRequestFormParams(RequestParams): mode: Literal["form"]; message: str; requested_schema: ElicitRequestedSchema;
    task: TaskMetadata?
ElicitRequestURLParams(RequestParams): mode: Literal["url"]; message: str; url: str; elicitation_id: str?; task:
    TaskMetadata?
InputRequiredResult(InputRequired): result_type: Literal["input_required"]; input_requests: InputRequests?;
    request_state: str?
"""

MESSAGES = """
DiscoverRequest server/discover RequestParams?
SubscriptionsListenRequest subscriptions/listen SubscriptionsListenRequestParams
SubscriptionsAcknowledgedNotification notifications/subscriptions/acknowledged
    SubscriptionsAcknowledgedNotificationParams
"""

ALIASES = """
InputRequest = CreateMessageRequest | ListRootsRequest | ElicitRequest
InputRequests = dict[str, InputRequest]
InputResponse = CreateMessageResult | CreateMessageResultWithTools | ListRootsResult | ElicitResult
InputResponses = dict[str, InputResponse]
ClientRequest = PingRequest | InitializeRequest | CompleteRequest | SetLevelRequest | GetPromptRequest |
    ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest | SubscribeRequest |
    UnsubscribeRequest | CallToolRequest | ListToolsRequest | DiscoverRequest | SubscriptionsListenRequest
ClientNotification = CancelledNotification | ProgressNotification | InitializedNotification |
    RootsListChangedNotification
ClientResult = EmptyResult | CreateMessageResult | CreateMessageResultWithTools | ListRootsResult | ElicitResult
ServerRequest = PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest
ServerNotification = CancelledNotification | ProgressNotification | LoggingMessageNotification |
    ResourceUpdatedNotification | ResourceListChangedNotification | ToolListChangedNotification |
    PromptListChangedNotification | ElicitCompleteNotification | SubscriptionsAcknowledgedNotification
ServerResult = EmptyResult | InitializeResult | DiscoverResult | CompleteResult | GetPromptResult | ListPromptsResult |
    ListResourcesResult | ListResourceTemplatesResult | ReadResourceResult | CallToolResult | ListToolsResult |
    SubscriptionsListenResult | InputRequiredResult
client_request_adapter = TypeAdapter(ClientRequest)
client_notification_adapter = TypeAdapter(ClientNotification)
client_result_adapter = TypeAdapter(ClientResult)
server_request_adapter = TypeAdapter(ServerRequest)
server_notification_adapter = TypeAdapter(ServerNotification)
server_result_adapter = TypeAdapter(ServerResult)
"""

#: Names of ``mcp.types`` 1.x without a successor.
REMOVED = frozenset(
    (
        "ClientNotificationType",
        "ClientRequestType",
        "ClientResultType",
        "Content",
        "ResourceReference",
        "ServerNotificationType",
        "ServerRequestType",
        "ServerResultType",
        "TaskExecutionMode",
    )
)
