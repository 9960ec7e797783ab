// Interceptors of workers that run activities of one another's sessions, as on a Temporal server without eager dispatch.
import { fileURLToPath } from 'node:url'

export const interceptors = { workflowModules: [fileURLToPath(new URL('../turn/no-eager.ts', import.meta.url))] }
