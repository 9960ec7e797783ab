// Watches the orchestrator. Every process of a crash test's workers loads this before its own code.
import { markWriter } from '../marks.ts'
import { listenForAnswers } from './answers.ts'
import { exitWith } from './exit-with-test.ts'
import { watchPostgres } from './postgres.ts'
import { watchRecords } from './recorded.ts'

/** The crash test's folder and pid, as its supervising process receives them. */
interface Surroundings {
  folder: string
  test: number
}

if (/orchestrator.main\.[jt]s$/.test(process.argv[1] ?? '')) {
  const { folder, test } = JSON.parse(process.env.PAWL_CRASH_SUPERVISOR ?? '{}') as Surroundings
  exitWith({ test, folder })
  const marks = markWriter(folder)
  watchPostgres(marks, listenForAnswers())
  watchRecords(marks)
}
