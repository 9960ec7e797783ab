// Migrates the side store's tables to this release. Run by the owner of the tables.
export { migrateStore } from '../../store/postgres/migrating.ts'
export type { MigrateReport } from '../../store/postgres/migrating.ts'
