// A user's own data converter, as a module: a payload converter that writes everything backwards.
import { fileURLToPath } from 'node:url'
import type { DataConverter } from '@temporalio/common'

/** What a worker names by its path, and a client is given. */
export const dataConverter: DataConverter = { payloadConverterPath: fileURLToPath(new URL('reversing-converter.js', import.meta.url)) }
