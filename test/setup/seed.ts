// Properties draw with the same seed as everything else that is random, and are tried this often unless a test says otherwise.
import fc from 'fast-check'
import { seed, size } from '../support/sizes.ts'

fc.configureGlobal({ seed, numRuns: size(50, 200) })
