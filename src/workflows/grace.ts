// The grace time of what nobody serves: how long a session waits before it says so.
import { CancellationScope, condition, sleep } from '@temporalio/workflow'

/** A grace time that begins when it is first asked for. */
export interface Grace {
  isOver(): boolean
  /** Waits until it is done, which is true, or the grace time over. */
  until(isDone: () => boolean): Promise<boolean>
  /** It was not needed any more; asked for again, it begins anew. */
  reset(): void
}

/** A grace time of `graceMs`. It is over when its timer has fired, whatever the clock says: see alarms.ts. */
export function startGrace(graceMs: number): Grace {
  // Not of the step that asks first: it goes on when that is stopped.
  const parent = CancellationScope.current()
  let spell: { scope: CancellationScope; isOver: boolean } | undefined

  function begun(): { isOver: boolean } {
    if (spell) return spell
    const mine = { scope: new CancellationScope({ cancellable: true, parent }), isOver: false }
    spell = mine
    mine.scope
      .run(() => sleep(Math.max(1, graceMs)))
      .then(
        () => {
          mine.isOver = true
        },
        () => undefined,
      )
    return mine
  }

  return {
    isOver: () => begun().isOver,
    async until(isDone) {
      const mine = begun()
      await condition(() => isDone() || mine.isOver)
      return isDone()
    },
    reset() {
      spell?.scope.cancel()
      spell = undefined
    },
  }
}
