// Bringing the side store's tables up to this release, for whoever owns them.
export { migrateStore } from '../store/migrating.ts'
export type { MigrateOptions, MigrateReport } from '../store/migrating.ts'
