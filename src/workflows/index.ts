// The exports of the workflow bundle. Each is a workflow type.
export { pawlOccurrence } from './occurrence.ts'
export { pawlSession } from './session.ts'
