"""Table of the models of ``mcp.types``, protocol revision 2025-11-25.

The columns of ``MODELS`` are a name, its base classes (default: ``Model``), and its fields in snake_case. ``T?`` is
``T | None`` with the default None, and ``meta`` is the field ``_meta``. ``MESSAGES`` has a request or notification, its
method, and the type of its parameters. Indented lines continue a row.
"""

__all__ = ["ALIASES", "MESSAGES", "MODELS"]

MODELS = """
RootsCapability: list_changed: bool?
SamplingContextCapability
SamplingToolsCapability
FormElicitationCapability
UrlElicitationCapability
ElicitationCapability: form: FormElicitationCapability?; url: UrlElicitationCapability?
SamplingCapability: context: SamplingContextCapability?; tools: SamplingToolsCapability?
TasksListCapability
TasksCancelCapability
TasksCreateMessageCapability
TasksSamplingCapability: create_message: TasksCreateMessageCapability?
TasksCreateElicitationCapability
TasksElicitationCapability: create: TasksCreateElicitationCapability?
ClientTasksRequestsCapability: sampling: TasksSamplingCapability?; elicitation: TasksElicitationCapability?
ClientTasksCapability: list: TasksListCapability?; cancel: TasksCancelCapability?; requests:
    ClientTasksRequestsCapability?
ClientCapabilities: experimental: dict[str, dict[str, Any]]?; sampling: SamplingCapability?; elicitation:
    ElicitationCapability?; roots: RootsCapability?; tasks: ClientTasksCapability?
PromptsCapability: list_changed: bool?
ResourcesCapability: subscribe: bool?; list_changed: bool?
ToolsCapability: list_changed: bool?
LoggingCapability
CompletionsCapability
TasksCallCapability
TasksToolsCapability: call: TasksCallCapability?
ServerTasksRequestsCapability: tools: TasksToolsCapability?
ServerTasksCapability: list: TasksListCapability?; cancel: TasksCancelCapability?; requests:
    ServerTasksRequestsCapability?
ServerCapabilities: experimental: dict[str, dict[str, Any]]?; logging: LoggingCapability?; prompts:
    PromptsCapability?; resources: ResourcesCapability?; tools: ToolsCapability?; completions:
    CompletionsCapability?; tasks: ServerTasksCapability?
InitializeRequestParams(RequestParams): protocol_version: str | int; capabilities: ClientCapabilities; client_info:
    Implementation
InitializeResult(Result): protocol_version: str | int; capabilities: ServerCapabilities; server_info:
    Implementation; instructions: str?
ProgressNotificationParams(NotificationParams): progress_token: ProgressToken; progress: float; total: float?;
    message: str?
SetLevelRequestParams(RequestParams): level: LoggingLevel
LoggingMessageNotificationParams(NotificationParams): level: LoggingLevel; logger: str?; data: Any
CancelledNotificationParams(NotificationParams): request_id: RequestId?; reason: str?
Resource(BaseMetadata): uri: Uri; description: str?; mime_type: str?; size: int?; icons: list[Icon]?; annotations:
    Annotations?; meta
ResourceTemplate(BaseMetadata): uri_template: str; description: str?; mime_type: str?; icons: list[Icon]?;
    annotations: Annotations?; meta
ListResourcesResult(PaginatedResult): resources: list[Resource]
ListResourceTemplatesResult(PaginatedResult): resource_templates: list[ResourceTemplate]
ReadResourceRequestParams(RequestParams): uri: Uri
ResourceContents: uri: Uri; mime_type: str?; meta
TextResourceContents(ResourceContents): text: str
BlobResourceContents(ResourceContents): blob: str
ReadResourceResult(Result): contents: list[TextResourceContents | BlobResourceContents]
SubscribeRequestParams(RequestParams): uri: Uri
UnsubscribeRequestParams(RequestParams): uri: Uri
ResourceUpdatedNotificationParams(NotificationParams): uri: Uri
PromptArgument: name: str; description: str?; required: bool?
Prompt(BaseMetadata): description: str?; arguments: list[PromptArgument]?; icons: list[Icon]?; meta
ListPromptsResult(PaginatedResult): prompts: list[Prompt]
GetPromptRequestParams(RequestParams): name: str; arguments: dict[str, str]?
TextContent: type: Literal["text"]; text: str; annotations: Annotations?; meta
ImageContent: type: Literal["image"]; data: str; mime_type: str; annotations: Annotations?; meta
AudioContent: type: Literal["audio"]; data: str; mime_type: str; annotations: Annotations?; meta
EmbeddedResource: type: Literal["resource"]; resource: TextResourceContents | BlobResourceContents; annotations:
    Annotations?; meta
ResourceLink(Resource): type: Literal["resource_link"]
PromptMessage: role: Role; content: ContentBlock
GetPromptResult(Result): description: str?; messages: list[PromptMessage]
ToolAnnotations: title: str?; read_only_hint: bool?; destructive_hint: bool?; idempotent_hint: bool?;
    open_world_hint: bool?
ToolExecution: task_support: TaskExecutionMode?
Tool(BaseMetadata): description: str?; input_schema: dict[str, Any]; output_schema: dict[str, Any]?; icons:
    list[Icon]?; annotations: ToolAnnotations?; meta; execution: ToolExecution?
ListToolsResult(PaginatedResult): tools: list[Tool]
CallToolRequestParams(RequestParams): name: str; arguments: dict[str, Any]?
CallToolResult(Result): content: list[ContentBlock]; structured_content: dict[str, Any]?; is_error: bool = False
ResourceTemplateReference: type: Literal["ref/resource"]; uri: str
ResourceReference(ResourceTemplateReference)
PromptReference: type: Literal["ref/prompt"]; name: str
CompletionArgument: name: str; value: str
CompletionContext: arguments: dict[str, str]?
CompleteRequestParams(RequestParams): ref: ResourceTemplateReference | PromptReference; argument:
    CompletionArgument; context: CompletionContext?
Completion: values: list[str]; total: int?; has_more: bool?
CompleteResult(Result): completion: Completion
ToolUseContent: type: Literal["tool_use"]; name: str; id: str; input: dict[str, Any]; meta
ToolResultContent: type: Literal["tool_result"]; tool_use_id: str; content: list[ContentBlock] = [];
    structured_content: dict[str, Any]?; is_error: bool?; meta
SamplingMessage(ContentList): role: Role; content: SamplingMessageContentBlock | list[SamplingMessageContentBlock];
    meta
ModelHint: name: str?
ModelPreferences: hints: list[ModelHint]?; cost_priority: float?; speed_priority: float?; intelligence_priority:
    float?
ToolChoice: mode: Literal["auto", "required", "none"]?
CreateMessageRequestParams(RequestParams): messages: list[SamplingMessage]; model_preferences: ModelPreferences?;
    system_prompt: str?; include_context: IncludeContext?; temperature: float?; max_tokens: int; stop_sequences:
    list[str]?; metadata: dict[str, Any]?; tools: list[Tool]?; tool_choice: ToolChoice?
CreateMessageResult(Result): role: Role; content: SamplingContent; model: str; stop_reason: StopReason?
CreateMessageResultWithTools(Result, ContentList): role: Role; content: SamplingMessageContentBlock |
    list[SamplingMessageContentBlock]; model: str; stop_reason: StopReason?
Root: uri: FileUrl; name: str?; meta
ListRootsResult(Result): roots: list[Root]
ElicitCompleteNotificationParams(NotificationParams): elicitation_id: str
ElicitRequestFormParams(RequestParams): mode: Literal["form"] = "form"; message: str; requested_schema:
    ElicitRequestedSchema
ElicitRequestURLParams(RequestParams): mode: Literal["url"] = "url"; message: str; url: str; elicitation_id: str
ElicitResult(Result): action: Literal["accept", "decline", "cancel"]; content: dict[str, str | int | float | bool |
    list[str] | None]?
ElicitationRequiredErrorData: elicitations: list[ElicitRequestURLParams]
RelatedTaskMetadata: task_id: str
Task: task_id: str; status: TaskStatus; status_message: str?; created_at: datetime; last_updated_at: datetime; ttl:
    StrictInt | None; poll_interval: StrictInt?
CreateTaskResult(Result): task: Task
GetTaskRequestParams(RequestParams): task_id: str
GetTaskResult(Result, Task)
GetTaskPayloadRequestParams(RequestParams): task_id: str
GetTaskPayloadResult(Result)
CancelTaskRequestParams(RequestParams): task_id: str
CancelTaskResult(Result, Task)
ListTasksResult(PaginatedResult): tasks: list[Task]
TaskStatusNotificationParams(NotificationParams, Task)
ClientRequest(UnionModel[ClientRequestType])
ClientNotification(UnionModel[ClientNotificationType])
ClientResult(UnionModel[ClientResultType])
ServerRequest(UnionModel[ServerRequestType])
ServerNotification(UnionModel[ServerNotificationType])
ServerResult(UnionModel[ServerResultType])
"""

MESSAGES = """
InitializeRequest initialize InitializeRequestParams
InitializedNotification notifications/initialized NotificationParams?
PingRequest ping RequestParams?
ProgressNotification notifications/progress ProgressNotificationParams
SetLevelRequest logging/setLevel SetLevelRequestParams
LoggingMessageNotification notifications/message LoggingMessageNotificationParams
CancelledNotification notifications/cancelled CancelledNotificationParams
ListResourcesRequest resources/list PaginatedRequestParams?
ListResourceTemplatesRequest resources/templates/list PaginatedRequestParams?
ReadResourceRequest resources/read ReadResourceRequestParams
ResourceListChangedNotification notifications/resources/list_changed NotificationParams?
SubscribeRequest resources/subscribe SubscribeRequestParams
UnsubscribeRequest resources/unsubscribe UnsubscribeRequestParams
ResourceUpdatedNotification notifications/resources/updated ResourceUpdatedNotificationParams
ListPromptsRequest prompts/list PaginatedRequestParams?
GetPromptRequest prompts/get GetPromptRequestParams
PromptListChangedNotification notifications/prompts/list_changed NotificationParams?
ListToolsRequest tools/list PaginatedRequestParams?
CallToolRequest tools/call CallToolRequestParams
ToolListChangedNotification notifications/tools/list_changed NotificationParams?
CompleteRequest completion/complete CompleteRequestParams
CreateMessageRequest sampling/createMessage CreateMessageRequestParams
ListRootsRequest roots/list RequestParams?
RootsListChangedNotification notifications/roots/list_changed NotificationParams?
ElicitCompleteNotification notifications/elicitation/complete ElicitCompleteNotificationParams
ElicitRequest elicitation/create ElicitRequestParams
GetTaskRequest tasks/get GetTaskRequestParams
GetTaskPayloadRequest tasks/result GetTaskPayloadRequestParams
CancelTaskRequest tasks/cancel CancelTaskRequestParams
ListTasksRequest tasks/list PaginatedRequestParams?
TaskStatusNotification notifications/tasks/status TaskStatusNotificationParams
"""

#: Other names, mostly unions of models.
ALIASES = """
LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
TaskExecutionMode = Literal["forbidden", "optional", "required"]
ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Content = ContentBlock
IncludeContext = Literal["none", "thisServer", "allServers"]
StopReason = Literal["endTurn", "stopSequence", "maxTokens", "toolUse"] | str
ElicitRequestedSchema = dict[str, Any]
SamplingMessageContentBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
SamplingContent = TextContent | ImageContent | AudioContent
ElicitRequestParams = ElicitRequestURLParams | ElicitRequestFormParams
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
ClientRequestType = PingRequest | InitializeRequest | CompleteRequest | SetLevelRequest | GetPromptRequest |
    ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest |
    SubscribeRequest | UnsubscribeRequest | CallToolRequest | ListToolsRequest | GetTaskRequest |
    GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest
ClientNotificationType = CancelledNotification | ProgressNotification | InitializedNotification |
    RootsListChangedNotification | TaskStatusNotification
ClientResultType = EmptyResult | CreateMessageResult | CreateMessageResultWithTools | ListRootsResult | ElicitResult
    | GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult | CreateTaskResult
ServerRequestType = PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest | GetTaskRequest |
    GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest
ServerNotificationType = CancelledNotification | ProgressNotification | LoggingMessageNotification |
    ResourceUpdatedNotification | ResourceListChangedNotification | ToolListChangedNotification |
    PromptListChangedNotification | ElicitCompleteNotification | TaskStatusNotification
ServerResultType = EmptyResult | InitializeResult | CompleteResult | GetPromptResult | ListPromptsResult |
    ListResourcesResult | ListResourceTemplatesResult | ReadResourceResult | CallToolResult | ListToolsResult |
    GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult | CreateTaskResult
"""
