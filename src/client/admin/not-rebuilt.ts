// What a rebuild cannot restore, because it is in no history.

/** The tables, with what is lost of each. docs/upkeep.md has the same list. */
export const NOT_REBUILT = {
  blobs: 'large values (over 128 KB); their events keep a reference and a preview',
  slices: 'slice values at earlier checkpoints; workers store those at the next ones',
  completed_keys: 'keys of effects whose events were pruned',
  archived_messages: 'messages of pruned sessions; those that a rollback or a recovery archived are restored',
  stray_events: 'events that were set aside because a session had two pasts',
  audit: 'records of erasures, prunings and rebuilds',
  api_keys: 'keys of the HTTP interface',
  gates: 'waits that providers asked for; workers learn of them again',
  call_limits: 'calls that count at a limit of their tool, or wait for it; those that wait ask again',
  approval_rules: 'which standing approvals were revoked; those for a context must be given again',
  approval_uses: 'which calls they have approved',
  shared_budgets: 'limits of budgets that sessions share; what was spent is restored',
  shared_batches: 'what workers have set aside of them',
  consumers: 'how far the export of traces and the webhooks have come in the feed',
  webhooks: 'addresses that are notified',
  webhook_deliveries: 'notifications that their targets have not accepted',
  deltas: 'text of answers that are not recorded yet',
} as const
