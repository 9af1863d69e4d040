"""What opens a connection: versions, authentication, forwarding, telemetry; and the headers of all frames."""

TEXT = """
RequestHeader: header, versions 1-2, flexible 2+
    request_api_key: int16
    request_api_version: int16
    correlation_id: int32
    client_id: string? classic

ResponseHeader: header, versions 0-1, flexible 1+
    correlation_id: int32

ApiVersionsRequest: request 18, versions 0-5, flexible 3+, on broker and controller
    client_software_name: string 3+ ignorable
    client_software_version: string 3+ ignorable
    cluster_id: string? 5+ ignorable = null
    node_id: int32 5+ ignorable = -1

ApiVersionsResponse: response 18, versions 0-5, flexible 3+
    error_code: int16
    api_keys: [ApiVersion]
        api_key: int16
        min_version: int16
        max_version: int16
    throttle_time_ms: int32 1+ ignorable
    supported_features: [SupportedFeatureKey] 3+ tag 0 ignorable
        name: string
        min_version: int16
        max_version: int16
    finalized_features_epoch: int64 3+ tag 1 ignorable = -1
    finalized_features: [FinalizedFeatureKey] 3+ tag 2 ignorable
        name: string
        max_version_level: int16
        min_version_level: int16
    zk_migration_ready: bool 3+ tag 3 ignorable

SaslHandshakeRequest: request 17, versions 0-1, on broker and controller
    mechanism: string

SaslHandshakeResponse: response 17, versions 0-1
    error_code: int16
    mechanisms: [string]

SaslAuthenticateRequest: request 36, versions 0-2, flexible 2+, on broker and controller
    auth_bytes: bytes

SaslAuthenticateResponse: response 36, versions 0-2, flexible 2+
    error_code: int16
    error_message: string?
    auth_bytes: bytes
    session_lifetime_ms: int64 1+ ignorable

EnvelopeRequest: request 58, versions 0, flexible 0+, on controller
    request_data: bytes
    request_principal: bytes?
    client_host_address: bytes

EnvelopeResponse: response 58, versions 0, flexible 0+
    response_data: bytes? = null
    error_code: int16

DefaultPrincipalData: data, versions 0, flexible 0+
    type: string
    name: string
    token_authenticated: bool

GetTelemetrySubscriptionsRequest: request 71, versions 0, flexible 0+, on broker
    client_instance_id: uuid

GetTelemetrySubscriptionsResponse: response 71, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    client_instance_id: uuid
    subscription_id: int32
    accepted_compression_types: [int8]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: bool
    requested_metrics: [string]

PushTelemetryRequest: request 72, versions 0, flexible 0+, on broker
    client_instance_id: uuid
    subscription_id: int32
    terminating: bool
    compression_type: int8
    metrics: bytes

PushTelemetryResponse: response 72, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
"""
