// The exports of the workflow bundle. Each is a workflow type.
export { pawlSession } from './session.ts'
