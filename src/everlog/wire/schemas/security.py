"""Access control lists, SCRAM credentials, delegation tokens."""

TEXT = """
DescribeAclsRequest: request 29, versions 1-3, flexible 2+, on broker and controller
    resource_type_filter: int8
    resource_name_filter: string?
    pattern_type_filter: int8 = 3
    principal_filter: string?
    host_filter: string?
    operation: int8
    permission_type: int8

DescribeAclsResponse: response 29, versions 1-3, flexible 2+
    throttle_time_ms: int32
    error_code: int16
    error_message: string?
    resources: [DescribeAclsResource]
        resource_type: int8
        resource_name: string
        pattern_type: int8 = 3
        acls: [AclDescription]
            principal: string
            host: string
            operation: int8
            permission_type: int8

CreateAclsRequest: request 30, versions 1-3, flexible 2+, on broker and controller
    creations: [AclCreation]
        resource_type: int8
        resource_name: string
        resource_pattern_type: int8 = 3
        principal: string
        host: string
        operation: int8
        permission_type: int8

CreateAclsResponse: response 30, versions 1-3, flexible 2+
    throttle_time_ms: int32
    results: [AclCreationResult]
        error_code: int16
        error_message: string?

DeleteAclsRequest: request 31, versions 1-3, flexible 2+, on broker and controller
    filters: [DeleteAclsFilter]
        resource_type_filter: int8
        resource_name_filter: string?
        pattern_type_filter: int8 = 3
        principal_filter: string?
        host_filter: string?
        operation: int8
        permission_type: int8

DeleteAclsResponse: response 31, versions 1-3, flexible 2+
    throttle_time_ms: int32
    filter_results: [DeleteAclsFilterResult]
        error_code: int16
        error_message: string?
        matching_acls: [DeleteAclsMatchingAcl]
            error_code: int16
            error_message: string?
            resource_type: int8
            resource_name: string
            pattern_type: int8 = 3
            principal: string
            host: string
            operation: int8
            permission_type: int8

DescribeUserScramCredentialsRequest: request 50, versions 0, flexible 0+, on broker and controller
    users: [UserName]?
        name: string

DescribeUserScramCredentialsResponse: response 50, versions 0, flexible 0+
    throttle_time_ms: int32
    error_code: int16
    error_message: string?
    results: [DescribeUserScramCredentialsResult]
        user: string
        error_code: int16
        error_message: string?
        credential_infos: [CredentialInfo]
            mechanism: int8
            iterations: int32

AlterUserScramCredentialsRequest: request 51, versions 0, flexible 0+, on broker and controller
    deletions: [ScramCredentialDeletion]
        name: string
        mechanism: int8
    upsertions: [ScramCredentialUpsertion]
        name: string
        mechanism: int8
        iterations: int32
        salt: bytes
        salted_password: bytes

AlterUserScramCredentialsResponse: response 51, versions 0, flexible 0+
    throttle_time_ms: int32
    results: [AlterUserScramCredentialsResult]
        user: string
        error_code: int16
        error_message: string?

CreateDelegationTokenRequest: request 38, versions 1-3, flexible 2+, on broker and controller
    owner_principal_type: string? 3+
    owner_principal_name: string? 3+
    renewers: [CreatableRenewers]
        principal_type: string
        principal_name: string
    max_lifetime_ms: int64

CreateDelegationTokenResponse: response 38, versions 1-3, flexible 2+
    error_code: int16
    principal_type: string
    principal_name: string
    token_requester_principal_type: string 3+
    token_requester_principal_name: string 3+
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: string
    hmac: bytes
    throttle_time_ms: int32

RenewDelegationTokenRequest: request 39, versions 1-2, flexible 2+, on broker and controller
    hmac: bytes
    renew_period_ms: int64

RenewDelegationTokenResponse: response 39, versions 1-2, flexible 2+
    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32

ExpireDelegationTokenRequest: request 40, versions 1-2, flexible 2+, on broker and controller
    hmac: bytes
    expiry_time_period_ms: int64

ExpireDelegationTokenResponse: response 40, versions 1-2, flexible 2+
    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32

DescribeDelegationTokenRequest: request 41, versions 1-3, flexible 2+, on broker and controller
    owners: [DescribeDelegationTokenOwner]?
        principal_type: string
        principal_name: string

DescribeDelegationTokenResponse: response 41, versions 1-3, flexible 2+
    error_code: int16
    tokens: [DescribedDelegationToken]
        principal_type: string
        principal_name: string
        token_requester_principal_type: string 3+
        token_requester_principal_name: string 3+
        issue_timestamp: int64
        expiry_timestamp: int64
        max_timestamp: int64
        token_id: string
        hmac: bytes
        renewers: [DescribedDelegationTokenRenewer]
            principal_type: string
            principal_name: string
    throttle_time_ms: int32
"""
