// Before `npm test`, `npm run demo` and the other scripts: installs the dependencies if node_modules is missing or does not have what the
// lock file names, so that each of them works as the first command in a fresh clone. Uses nothing but Node.
// `node scripts/install.js . test/ai-sdk-7` does so for several folders; without arguments, for the root.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const folders = process.argv.slice(2)
for (const folder of folders.length > 0 ? folders : ['.']) {
  const why = reasonToInstall(folder)
  if (why !== undefined) install(folder, why)
}

function reasonToInstall(folder) {
  const installedIn = join(folder, 'node_modules')
  if (!existsSync(installedIn)) return `${installedIn} is missing`
  const locked = packagesOf(join(folder, 'package-lock.json'))
  // npm writes it after an installation; times of files say less, because a checkout of the same lock file changes them.
  const installed = packagesOf(join(installedIn, '.package-lock.json'))
  if (!installed) return `${installedIn} is incomplete`
  const stale = Object.entries(locked ?? {}).find(([path, entry]) => path !== '' && !entry.link && !matches(entry, installed[path]))
  return stale && `${installedIn} is older than package-lock.json (${stale[0].replace(/^.*node_modules\//, '')})`
}

/** Optional packages may be missing: those of other platforms are. */
function matches({ version, optional, devOptional, peer }, installed) {
  if (!installed) return Boolean(optional || devOptional || peer)
  return installed.version === version
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages
  } catch {
    return undefined
  }
}

/** `npm ci` first removes node_modules. If there is one, it is completed instead: without a network, the old one still works. */
function install(folder, reason) {
  const isNew = !existsSync(join(folder, 'node_modules'))
  const command = isNew ? ['ci'] : ['install', '--no-save']
  console.error(`${reason}: running npm ${command.join(' ')}`)
  // Another package manager may run the script; the lock file is npm's.
  const npm = process.env.npm_execpath?.endsWith('npm-cli.js') ? process.env.npm_execpath : undefined
  const args = [...command, '--include=dev', '--no-audit', '--no-fund']
  const [program, first] = npm ? [process.execPath, [npm]] : ['npm', []]
  // Standard output belongs to the script that follows.
  const { status } = spawnSync(program, [...first, ...args], {
    cwd: resolve(folder),
    stdio: ['ignore', 2, 2],
    shell: !npm && process.platform === 'win32',
  })
  if (status === 0) return
  console.error(
    `npm ${command[0]} failed (see above). ${isNew ? 'Install the dependencies by hand.' : 'Continuing with what is installed.'}`,
  )
  if (isNew) process.exit(1)
}
