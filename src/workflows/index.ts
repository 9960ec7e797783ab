// What the workflow bundle exports: each export is a workflow type.
export { pawlSession } from './session.ts'
