// Bringing the side store's tables up to this release, for whoever owns them.
export { migrateStore } from '../../store/postgres/migrating.ts'
export type { MigrateOptions, MigrateReport } from '../../store/postgres/migrating.ts'
