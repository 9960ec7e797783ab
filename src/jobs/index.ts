// The jobs of an executor, by kind.
import { callModel } from './model-call/call-model.ts'
import { compact } from './model-call/compact.ts'
import type { JobInput, JobKind, JobResult } from '../calls/jobs.ts'
import { endHooks } from './end-hooks.ts'
import { executeTool } from './tool-call/execute-tool.ts'
import type { Job, JobNeeds } from './needs.ts'
import { checkAnswer, resolveTool } from './tool-call/outside.ts'
import { verifyTool } from './tool-call/verify-tool.ts'

type CarryOut<K extends JobKind> = (needs: JobNeeds, job: Job, input: JobInput<K>) => Promise<JobResult<K>>

const JOBS: { [K in JobKind]: CarryOut<K> } = { callModel, compact, executeTool, verifyTool, resolveTool, checkAnswer, endHooks }

/** Carries out a job. @throws TryAgain, and errors of user code that must fail the activity. */
export function carryOut<K extends JobKind>(kind: K, needs: JobNeeds, job: Job, input: JobInput<K>): Promise<JobResult<K>> {
  return JOBS[kind](needs, job, input)
}
