// A number that follows from the committed code and tests, not from the documents: the same commit always runs the same cases.
import { spawnSync } from 'node:child_process'

/** The number; undefined outside a repository. */
export function commitSeed() {
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD:src', 'HEAD:test'], {
    encoding: 'utf8',
    cwd: new URL('../', import.meta.url),
  })
  const [src = '', test = ''] = (stdout ?? '').split('\n')
  return status === 0 ? Number.parseInt(src.slice(0, 7), 16) ^ Number.parseInt(test.slice(0, 7), 16) : undefined
}
