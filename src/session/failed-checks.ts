// The reasons for an approval that neither the tool nor a hook asked for: the code that decides has thrown, and its text may contain anything.

/** The tool's approval function has thrown. */
export const approvalFailed = (message: string): string => `The tool's approval function failed: ${message}`

/** A hook that is asked before calls has thrown. */
export const hookFailed = (hook: string, message: string): string => `The hook "${hook}" failed: ${message}`

const FAILED = /^(The tool's approval function failed|The hook "[^"]*" failed): /

/** The reason of an approval, without the text of an error. */
export function withoutErrorText(reason: string): string {
  const [, what] = FAILED.exec(reason) ?? []
  return what === undefined ? reason : `${what}.`
}
