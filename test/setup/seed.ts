// What properties draw: with the seed of everything else that is left to chance.
import fc from 'fast-check'
import { seed } from '../support/sizes.ts'

fc.configureGlobal({ seed })
