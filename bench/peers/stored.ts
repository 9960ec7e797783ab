// How many bytes of values a database has. Indexes, row headers and old versions of rows do not count.
import { Client } from 'pg'

/** Bytes of all values in all tables, as they are stored: compressed where Postgres compresses them. */
export async function storedBytes(databaseUrl: string): Promise<number> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    let sum = 0
    for (const { name, columns } of await tablesOf(client)) {
      const size = columns.map((column) => `COALESCE(pg_column_size(${column}), 0)`).join(' + ')
      const { rows } = await client.query<{ bytes: string }>(`SELECT COALESCE(SUM(${size}), 0) AS bytes FROM ${name}`)
      sum += Number(rows[0]?.bytes)
    }
    return sum
  } finally {
    await client.end()
  }
}

interface Table {
  name: string
  columns: string[]
}

/** Tables without their own partitions: those are read through the table that they are parts of. */
async function tablesOf(client: Client): Promise<Table[]> {
  const { rows } = await client.query<Table>(`
    SELECT format('%I.%I', n.nspname, c.relname) AS name, array_agg(quote_ident(a.attname)) AS columns
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    GROUP BY 1`)
  return rows
}
