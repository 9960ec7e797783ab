// Rows of lists, as the OpenAPI document describes them.
import type { components } from './openapi.d.ts'

type Schemas = components['schemas']
export type SessionRow = Schemas['ListedSessionPage']['items'][number]
export type PendingRow = Schemas['ListedPendingCallPage']['items'][number]
export type ErrorRow = Schemas['ListedErrorPage']['items'][number]
export type UsageRow = Schemas['UsageSumPage']['items'][number]
export type ApprovalRuleRow = Schemas['ApprovalRuleItems']['items'][number]
