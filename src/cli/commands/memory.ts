// `pawl memory <session>`: the blocks of the session's memory, or all its versions.
import { Command } from 'commander'
import type { MemoryBlock, MemoryVersion } from '../../client/index.ts'
import { say } from '../queries.ts'
import { aboutDeployment, type DeploymentOptions } from '../connecting.ts'
import { liveOrStored } from '../live-or-stored.ts'
import { defined } from '../../session/defined.ts'
import { atOption, jsonOption } from '../options.ts'
import { type Column, linesOfTable } from '../table.ts'
import { paint, printable } from '../terminal.ts'
import type { MemoryChange } from '../../session/built-in-tools/memory.ts'
import { counted } from '../../session/counted.ts'

const VERSIONS: Column<MemoryVersion>[] = [
  { name: 'version', of: (row) => row.version, right: true },
  { name: 'turn', of: (row) => `${row.run}.${row.turn}` },
  { name: 'seq', of: (row) => row.seq, right: true },
  { name: 'made', of: (row) => new Date(row.at) },
  { name: 'archived', of: (row) => (row.archivedSeq === undefined ? 'no' : `at ${row.archivedSeq}`) },
  { name: 'block', of: (row) => row.change.block },
  { name: 'change', of: (row) => changeText(row.change) },
]

interface MemoryCommandOptions extends DeploymentOptions {
  versions?: true
  at?: number
  json?: true
}

export function memoryCommand(): Command {
  return aboutDeployment(
    new Command('memory').description("show the blocks of a session's memory").argument('<session>', "the session's id"),
  )
    .addOption(atOption('the memory').conflicts('versions'))
    .option('--versions', 'list all versions of the memory, oldest first, with the changes in each')
    .addOption(jsonOption())
    .action((session: string, options: MemoryCommandOptions) => (options.versions ? showVersions : showMemory)(session, options))
}

async function showMemory(session: string, options: MemoryCommandOptions): Promise<void> {
  const blocks = await liveOrStored(
    options,
    (pawl) => pawl.session(session).memory(defined({ at: options.at })),
    (queries) => queries.session(session).memory(options.at),
  )
  if (options.json) for (const block of blocks) say(JSON.stringify(block))
  else for (const line of blocks.length > 0 ? blocks.flatMap(linesOfBlock) : [`session ${session} has no memory`]) say(line)
}

async function showVersions(session: string, options: MemoryCommandOptions): Promise<void> {
  const versions = await liveOrStored(
    options,
    (pawl) => pawl.session(session).memoryVersions(),
    (queries) => queries.session(session).memoryVersions(),
  )
  for (const line of options.json ? versions.map((version) => JSON.stringify(version)) : linesOfTable(VERSIONS, versions)) say(line)
}

function linesOfBlock({ block, content, maxChars }: MemoryBlock): string[] {
  const size =
    maxChars === undefined
      ? `${counted(content.length, 'character')}; no longer declared`
      : `${content.length} of ${counted(maxChars, 'character')}`
  return [`${paint('bold', block)} (${size})`, ...(content === '' ? [] : [printable(content)])]
}

function changeText(change: MemoryChange): string {
  if (change.do === 'append') return `appended: ${change.text.trim()}`
  const { old, content } = change
  if (content === '') return old === undefined ? 'emptied' : `deleted: ${old}`
  return old === undefined ? `replaced by: ${content}` : `replaced ${JSON.stringify(old)} by: ${content}`
}
