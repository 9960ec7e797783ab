// Properties draw with the same seed as everything else that is random, and are tried this often unless a test says otherwise.
import fc from 'fast-check'
import { seed, size } from '../support/sizes.ts'

fc.configureGlobal({
  seed,
  numRuns: size(50, 200),
  // Making the counterexample of a whole session smaller takes tens of minutes; the first one that failed is reported then.
  interruptAfterTimeLimit: size(90_000, 1_800_000),
  markInterruptAsFailure: true,
})
