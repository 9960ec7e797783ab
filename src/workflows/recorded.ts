// The parts of an activity's result that become part of an event.
import type { RecordedResult } from '../activities/contract.ts'
import { defined } from '../session/defined.ts'

/** The result as events carry it. */
export function recorded(result: RecordedResult): RecordedResult {
  const { value, content, blob, effectId } = result
  return {
    ...defined({ value, content, blob, effectId }),
  }
}
