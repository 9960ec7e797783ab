// Acts that wait for a condition and that nothing awaits.
import { CancellationScope, condition } from '@temporalio/workflow'

/**
 * Acts once the condition holds, even if the workflow or the step in which it was requested is cancelled first. Nothing awaits the act, so a
 * rejection here would fail every workflow task. The first wait stays as it was in earlier histories: a scope around it would change the
 * order of a task's commands.
 */
export function onceTrue(isTrue: () => boolean, act: () => void): void {
  void condition(isTrue).then(act, () => CancellationScope.nonCancellable(() => condition(isTrue)).then(act))
}
