// The names that tools, hooks and slices may have.
import { where } from '../options/check.ts'

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** The name of a hook or slice. */
export const NAMED = where<string>(
  (name) => typeof name === 'string' && NAME.test(name),
  'a letter followed by up to 63 characters of [A-Za-z0-9_-]',
)

/** Whether the text can be a tool's name. */
export function isToolName(text: unknown): text is string {
  return typeof text === 'string' && TOOL_NAME.test(text)
}
