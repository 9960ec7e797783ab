// Another build, which can replay no history of this one.
import { fileURLToPath } from 'node:url'

/** Interceptors with which a session begins with a timer that is in no history of this build. */
export const OTHER_BUILD = { workflowModules: [fileURLToPath(new URL('./own/added-timer.js', import.meta.url))] }
