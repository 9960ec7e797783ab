// Reasons for approvals that neither the tool nor a hook requested. They are requested because the deciding code has thrown an error, whose
// text may contain anything.

/** The tool's approval function has thrown. */
export const approvalFailed = (message: string): string => `The tool's approval function failed: ${message}`

/** A `preToolUse` hook has thrown. */
export const hookFailed = (hook: string, message: string): string => `The hook "${hook}" failed: ${message}`

const FAILED = /^(The tool's approval function failed|The hook "[^"]*" failed): /

/** The reason for an approval, without the text of an error. */
export function withoutErrorText(reason: string): string {
  const [, what] = FAILED.exec(reason) ?? []
  return what === undefined ? reason : `${what}.`
}
