// `node scripts/complete-lock.js`, after every `npm install`: adds to package-lock.json the optional packages of other platforms
// that npm left out (npm/cli#4828, or a registry that does not serve them). `npm ci` refuses a lock that lacks them.
import { readFileSync, writeFileSync } from 'node:fs'

const FILE = new URL('../package-lock.json', import.meta.url)
const OS = { android: 'android', darwin: 'darwin', linux: 'linux', linuxmusl: 'linux', win32: 'win32', windows: 'win32' }
for (const os of ['freebsd', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'aix']) OS[os] = os
const CPU = ['arm64', 'x64', 'ia32', 'arm', 'ppc64', 'ppc64le', 's390x', 'riscv64', 'loong64', 'mips64el', 'mips64', 'wasm32']

const lock = JSON.parse(readFileSync(FILE, 'utf8'))
const { packages } = lock
const added = []
for (const [path, parent] of Object.entries({ ...packages })) {
  if (path === '') continue
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    if (isThere(path, name) || !/^\d/.test(version)) continue
    packages[`node_modules/${name}`] = entryFor(name, version, parent)
    added.push(`${name}@${version}`)
  }
}
lock.packages = Object.fromEntries(Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1)))
writeFileSync(FILE, `${JSON.stringify(lock, null, 2)}\n`)
console.log(`${added.length} packages of other platforms added to package-lock.json`)

/** Whether the package at `from` finds `name`: beside itself or in a folder above. */
function isThere(from, name) {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    if (packages[`${at ? `${at}/` : ''}node_modules/${name}`]) return true
    if (!at) return false
  }
}

/** Platform packages carry their platform in their names; without it npm would try to install them everywhere. */
function entryFor(name, version, parent) {
  const parts = name.replace(/^@/, '').split(/[/-]/)
  const os = parts.map((part) => OS[part]).find(Boolean)
  const cpu = parts.map((part) => (part === 'x86_64' ? 'x64' : CPU.find((one) => part === one))).find(Boolean)
  return {
    version,
    optional: true,
    ...(cpu && { cpu: [cpu] }),
    ...(os && { os: [os] }),
    ...(parent.dev && { dev: true }),
    ...(/musl/.test(name) && { libc: ['musl'] }),
    ...(parent.engines && { engines: parent.engines }),
  }
}
