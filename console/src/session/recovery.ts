// The strategies of a recovery, as the server previews them.
import type { RecoveryPreview } from '../../../src/session/recovery/preview.ts'
import type { CallChoice } from '../../../src/session/recovery/selective.ts'
import { answered, api } from '../api/client.ts'

/** Those that a button can carry out: `selective` needs a choice of calls. */
export function previewsOf({ previews }: { previews: readonly unknown[] }): RecoveryPreview[] {
  return (previews as RecoveryPreview[]).filter(({ strategy, refused }) => !refused && strategy !== 'manual' && strategy !== 'selective')
}

/** Whether a person may choose what becomes of each call. */
export function mayChoose({ previews }: { previews: readonly unknown[] }): boolean {
  return (previews as RecoveryPreview[]).some(({ strategy, refused }) => strategy === 'selective' && !refused)
}

interface Recovery extends Partial<CallChoice> {
  strategy: string
  seenSeq: number
  reason?: string
}

export async function recoverSession(session: string, how: Recovery): Promise<void> {
  await answered(api.POST('/v1/sessions/{session}/recover', { params: { path: { session } }, body: how as never }))
}

/** What a strategy would do to calls. */
export function wordsOf({ keeps, replays, leaves, executes, drops }: RecoveryPreview): string {
  const parts: [string[], string][] = [
    [executes, 'executes'],
    [keeps, 'keeps the results of'],
    [replays, 'answers again without executing'],
    [leaves, 'drops the results of'],
    [drops, 'never runs'],
  ]
  const said = parts.filter(([calls]) => calls.length > 0).map(([calls, what]) => `${what} ${calls.join(', ')}`)
  return said.length > 0 ? said.join('; ') : 'changes no call'
}
