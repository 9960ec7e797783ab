// What precedes every script of package.json: dependencies are installed if they are missing or older than the lock file.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const exec = promisify(execFile)
const ROOT = new URL('../../', import.meta.url)

interface Ran {
  code: number
  stdout: string
  stderr: string
}

it('every script of the repository installs what it needs first', async () => {
  const { scripts } = JSON.parse(await readFile(new URL('package.json', ROOT), 'utf8')) as { scripts: Record<string, string> }
  // npm runs `prepack` by itself, and has no script before it.
  const names = Object.keys(scripts).filter((name) => !name.startsWith('pre'))
  expect(names).toEqual(expect.arrayContaining(['test', 'demo', 'build', 'check']))
  expect(names.filter((name) => !/^node scripts\/install\.js( \. test\/ai-sdk-7)?$/.test(scripts[`pre${name}`] ?? ''))).toEqual([])
})

describe('a clone', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'pawl-clone-'))
    await cp(new URL('scripts/install.js', ROOT), join(folder, 'clone/scripts/install.js'))
    const scripts = { pretest: 'node scripts/install.js', test: 'node -p "require(\'dependency\')"' }
    for (const version of ['1.0.0', '2.0.0']) await pack(version)
    await writeJson('clone/package.json', { name: 'clone', type: 'module', scripts, devDependencies: { dependency: '*' } })
    await writeFile(join(folder, 'clone/.npmrc'), 'registry=http://127.0.0.1:9/\nfetch-retries=0\nupdate-notifier=false\n')
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  const writeJson = (path: string, value: object): Promise<void> => writeFile(join(folder, path), JSON.stringify(value))

  /** A tarball of a dependency whose value is its version. */
  async function pack(version: string): Promise<void> {
    await mkdir(join(folder, version))
    await writeJson(`${version}/package.json`, { name: 'dependency', version })
    await writeFile(join(folder, version, 'index.js'), `module.exports = ${JSON.stringify(`dependency ${version}`)}\n`)
    await exec('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: join(folder, version) })
  }

  /** The lock file names a version. */
  async function lock(version: string): Promise<void> {
    const dependency = { version, resolved: `file:../dependency-${version}.tgz`, dev: true }
    const packages = {
      '': { name: 'clone', devDependencies: { dependency: '*' } },
      'node_modules/dependency': dependency,
      // As those of other platforms are.
      'node_modules/absent': { version: '1.0.0', optional: true, os: ['none'] },
    }
    await writeJson('clone/package-lock.json', { name: 'clone', lockfileVersion: 3, requires: true, packages })
  }

  /** Runs `npm test`, as a person does: not from within another npm script. */
  async function test(env: Record<string, string> = {}): Promise<Ran> {
    const ours = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')))
    try {
      return { code: 0, ...(await exec('npm', ['test'], { cwd: join(folder, 'clone'), env: { ...ours, ...env } })) }
    } catch (error) {
      return error as Ran
    }
  }

  const answersWith = (version: string) => ({ code: 0, stdout: expect.stringContaining(`dependency ${version}`) as string })

  it('a clone installs what is missing, even with NODE_ENV=production', async () => {
    await lock('1.0.0')
    const ran = await test({ NODE_ENV: 'production' })
    expect(ran).toMatchObject({
      ...answersWith('1.0.0'),
      stderr: expect.stringContaining('node_modules is missing: running npm ci') as string,
    })
  })

  it('a clone installs nothing if everything is there', async () => {
    expect(await test()).toMatchObject({ ...answersWith('1.0.0'), stderr: '' })
  })

  it('a clone installs what is older than the lock file, and leaves the lock file as it is', async () => {
    await lock('2.0.0')
    const locked = await readFile(join(folder, 'clone/package-lock.json'), 'utf8')
    const stderr = expect.stringContaining('node_modules is older than package-lock.json (dependency)') as string
    expect(await test()).toMatchObject({ ...answersWith('2.0.0'), stderr })
    expect(await readFile(join(folder, 'clone/package-lock.json'), 'utf8')).toBe(locked)
  })

  it('a clone continues with what is there if an installation fails', async () => {
    await lock('3.0.0')
    const stderr = expect.stringContaining('npm install failed (see above). Continuing with what is installed.') as string
    expect(await test()).toMatchObject({ ...answersWith('2.0.0'), stderr })
  })

  it('a clone ends if nothing is there and the installation fails', async () => {
    await rm(join(folder, 'clone/node_modules'), { recursive: true })
    expect(await test()).toMatchObject({ code: 1, stderr: expect.stringContaining('npm ci failed (see above).') as string })
  })
})
