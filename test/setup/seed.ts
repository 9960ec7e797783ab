// Properties draw with the same seed as everything else that is random.
import fc from 'fast-check'
import { seed } from '../support/sizes.ts'

fc.configureGlobal({ seed })
