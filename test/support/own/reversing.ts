// A user's own data converter, as a module: a payload converter that writes everything backwards.
import { fileURLToPath } from 'node:url'
import type { DataConverter } from '@temporalio/common'

/** A worker loads it by its module's path; a client receives it directly. */
export const dataConverter: DataConverter = { payloadConverterPath: fileURLToPath(new URL('reversing-converter.js', import.meta.url)) }
