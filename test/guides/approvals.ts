// The snippets of docs/approvals.md, as their test runs them.
// #region tools
import { defineTool } from 'pawl'
import { z } from 'zod'

export const refund = defineTool({
  name: 'refund_order',
  description: 'Refund an order to its original payment method.',
  input: z.object({ orderId: z.string(), cents: z.number().int().positive() }),
  effect: 'external',
  approval: ({ cents }, ctx) => cents > 10_000 && `more than 100.00 for ${ctx.sessionId}`,
  approvalTimeout: '8h', // default 24 h
  onExpiry: 'deny', // or 'error': the run fails
  execute: (input, ctx) => ctx.services.payments.refund(input, { idempotencyKey: ctx.idempotencyKey }),
})

export const address = defineTool({
  name: 'ask_for_address',
  description: 'Ask the customer for the address to deliver to.',
  input: z.object({ orderId: z.string() }),
  output: z.object({ street: z.string().min(1), city: z.string().min(1) }),
  effect: 'read',
  execute: 'client',
  timeout: '2d', // default: no limit
})

export const courier = defineTool({
  name: 'book_courier',
  description: 'Book a courier for an order.',
  input: z.object({ orderId: z.string() }),
  effect: 'external',
  execute: ({ orderId }, ctx) => ctx.services.couriers.book(orderId, ctx.idempotencyKey),
  verify: async ({ orderId }, ctx) => {
    const booking = await ctx.services.couriers.find(orderId, ctx.idempotencyKey)
    return booking ? { happened: true, result: booking } : { happened: 'unknown' }
  },
  verifyTimeout: '10s', // default: the tool's timeout
  verifyRetries: 5, // default 3
  onUnknown: 'ask', // the default; or 'tell_model'
})
// #endregion tools

import type { Pawl, RunHandle, SessionHandle } from 'pawl/client'

/** Looks at what a run waits for. */
export async function look(run: RunHandle) {
  // #region settled
  const settled = await run.settled()
  if (settled.status === 'waiting') {
    for (const call of settled.pending) console.log(call.kind, call.callId, call.tool, call.input, call.digest, call.reason)
  }
  // #endregion settled
  return settled
}

/** Decides on what a run waits for. */
export async function decideAll(session: SessionHandle, run: RunHandle) {
  // #region kinds
  const settled = await run.settled()
  for (const call of settled.status === 'waiting' ? settled.pending : []) {
    if (call.kind === 'approval') await session.approve(call.callId, { digest: call.digest, by: 'ann' })
    if (call.kind === 'client') await session.answer(call.callId, { street: 'Main Street 1', city: 'Springfield' })
    if (call.kind === 'unknown') await session.resolve(call.callId, 'skip', { by: 'ann' })
  }
  // #endregion kinds
}

/** Approves. */
export async function decide(session: SessionHandle, callId: string, digest: string) {
  // #region approve
  await session.approve(callId, { digest, by: 'ann', note: 'called the customer' })
  // #endregion approve
}

// #region role
export const grant = defineTool({
  name: 'grant_credit',
  description: 'Grant a customer credit.',
  input: z.object({ customer: z.string(), cents: z.number().int().positive() }),
  effect: 'external',
  approval: ({ cents }) => ({ reason: `${cents} cents`, approvers: { role: cents > 10_000 ? 'finance' : 'support' } }),
  execute: (input, ctx) => ctx.services.credits.grant(input, { idempotencyKey: ctx.idempotencyKey }),
})
// #endregion role

/** Approves as a person with a role. */
export async function decideAs(session: SessionHandle, callId: string, digest: string) {
  // #region roles
  await session.approve(callId, { digest, by: 'ann', roles: ['finance'] })
  // #endregion roles
}

/** Approves, and later calls, too. */
export async function remember(session: SessionHandle, callId: string, digest: string) {
  // #region remember
  const standing = await session.approve(callId, { digest, by: 'ann', remember: { for: 'session', matching: 'tool' } })
  console.log(standing.rule, standing.released) // the rule's id, and the waiting calls that it has approved as well
  // #endregion remember
  return standing.rule ?? ''
}

/** Lists and revokes rules. */
export async function revoke(pawl: Pawl, ruleId: string) {
  // #region rules
  for (const rule of await pawl.approvals.rules({ agent: 'support' })) console.log(rule.id, rule.tool, rule.for, rule.used, rule.givenBy)
  await pawl.approvals.revoke(ruleId, { by: 'bob', reason: 'the customer left' })
  // #endregion rules
}

/** Denies. */
export async function deny(session: SessionHandle, callId: string, digest: string) {
  // #region deny
  await session.deny(callId, { digest, by: 'ann', reason: 'The order was delivered: offer a voucher.' })
  // #endregion deny
}

/** Approves with other arguments. */
export async function edit(session: SessionHandle, callId: string, digest: string) {
  // #region edit
  const approved = await session.approve(callId, { digest, by: 'ann', input: { orderId: 'A7', cents: 9_900 } })
  console.log(approved.digest) // of the arguments that are executed
  // #endregion edit
}

/** Answers. */
export async function answer(session: SessionHandle, callId: string) {
  // #region answer
  await session.answer(callId, { street: 'Main Street 1', city: 'Springfield' }, { by: 'customer' })
  // #endregion answer
}

/** Says how a call ended. */
export async function resolve(session: SessionHandle, callId: string) {
  // #region resolve
  await session.resolve(callId, { happened: true, result: { booking: 'B-17' } }, { by: 'ann', note: 'saw it in their portal' })
  // #endregion resolve
}

/** The inbox. */
export async function inbox(pawl: Pawl) {
  // #region inbox
  for await (const call of pawl.pending.list({ kind: ['approval', 'unknown'], agent: 'support', tags: ['vip'] })) {
    console.log(call.sessionId, call.callId, call.tool, call.input, call.digest, call.reason, call.expiresAt)
  }
  // #endregion inbox
}

/** One decision for a group. */
export async function settleGroup(pawl: Pawl, session: SessionHandle, callId: string, digest: string) {
  // #region groups
  const groups = new Map<string, string[]>()
  for await (const call of pawl.pending.list({ kind: 'approval' })) {
    if (call.kind === 'approval') groups.set(call.group, [...(groups.get(call.group) ?? []), `${call.sessionId} ${call.callId}`])
  }
  await session.approve(callId, { digest, by: 'ann', remember: { for: 'context', matching: 'tool', uses: 5 } })
  // #endregion groups
  return groups
}
