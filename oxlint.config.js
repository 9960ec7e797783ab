// Lint: what is wrong rather than what is ugly, and which folder of src/ may import which.
import { readdirSync } from 'node:fs'
import { defineConfig } from 'oxlint'

/**
 * The module boundaries of src/. `values`: folders whose code a folder may import, `types`: folders of which it may import types only,
 * `packages`: packages that it must not import, `packageTypes`: those of which it may import types only. Every folder may import
 * `session`, which imports no other.
 * A subfolder has a rule of its own. It may import what lies directly in its folder, and `siblings`: other subfolders of its folder.
 */
const BOUNDARIES = {
  session: { values: [], types: [], packages: ['node:*', '@temporalio/*', 'pg', 'zod'] },
  // What every edge checks its options with.
  options: { values: [], types: [], packages: ['node:*', '@temporalio/*', 'pg'] },
  agent: { values: ['options'], types: [], packages: ['@temporalio/*', 'pg'] },
  // Loggers, which every process of a worker has.
  log: { values: ['options'], types: ['agent'], packages: ['@temporalio/*', 'pg'] },
  // What executors and clients know of telemetry is how ids are derived; the SDK of OpenTelemetry is the orchestrator's.
  telemetry: { values: [], types: [], packages: ['node:*', '@temporalio/*', 'pg', 'zod'] },
  connect: { values: [], types: ['agent'], packages: ['@temporalio/worker', '@temporalio/core-bridge'] },
  models: { values: ['agent', 'options'], types: [], packages: ['@temporalio/*', 'pg'] },
  // Tools from elsewhere. The packages that they come from are the user's.
  tools: { values: ['agent', 'options', 'waiting'], types: [], packages: ['@temporalio/*', 'pg', 'ai'] },
  // Of connect, what both it and the client say while they wait: nothing of Temporal.
  store: { values: ['connect', 'options', 'waiting'], types: ['agent'], packages: ['@temporalio/*'] },
  // Bounded waits, and work that is done concurrently.
  waiting: { values: [], types: [], packages: ['node:*', '@temporalio/*', 'pg', 'zod'] },
  // The contract between workflow, orchestrator and executor: inputs and results of activities and jobs, and how they end without one.
  calls: { values: [], types: [], packages: ['node:*', '@temporalio/*', 'pg', 'zod'] },
  workflows: { values: [], types: ['calls'], packages: ['node:*', '@temporalio/worker', '@temporalio/client', 'pg', 'zod'] },
  jobs: { values: ['agent', 'calls', 'log', 'models', 'waiting'], types: [], packages: ['@temporalio/*', 'pg'] },
  activities: { values: ['agent', 'calls', 'connect', 'store', 'waiting'], types: [], packages: ['@temporalio/workflow', 'pg'] },
  // What its subfolders share, whether their process has the SDK or not, and what `pawl/worker` exports.
  worker: {
    values: ['agent', 'connect', 'log', 'options', 'telemetry'],
    types: ['calls'],
    packages: [],
    packageTypes: ['@temporalio/*', 'pg'],
  },
  // Its process must outlive whatever a package can do.
  'worker/parent': { values: ['log'], types: ['agent', 'connect'], siblings: [], packages: [], packageTypes: 'all' },
  'worker/orchestrator': {
    values: ['activities', 'agent', 'calls', 'connect', 'log', 'store', 'telemetry', 'waiting'],
    types: ['workflows'],
    siblings: [],
    packages: ['@temporalio/workflow'],
  },
  // Its process runs user code, and neither SDK nor pool of pawl's beside it.
  'worker/executor': { values: ['agent', 'calls', 'jobs', 'log', 'telemetry'], types: [], siblings: [], packages: ['@temporalio/*', 'pg'] },
  'worker/one-process': {
    values: ['agent', 'connect', 'log', 'store'],
    types: [],
    siblings: ['orchestrator', 'executor'],
    packages: ['@temporalio/workflow'],
  },
  // Replays what orchestrators run, and has the parent start a process for user code.
  'worker/preflight': {
    values: ['connect', 'store', 'waiting'],
    types: ['agent', 'workflows'],
    siblings: ['orchestrator', 'parent'],
    packages: ['@temporalio/workflow', '@temporalio/activity', 'pg'],
  },
  client: {
    values: ['connect', 'options', 'store', 'waiting'],
    types: ['agent'],
    packages: ['@temporalio/worker', '@temporalio/activity', '@temporalio/workflow'],
  },
  // For workers of the user's own workflows: a workflow's half and an activity's half.
  asking: { values: ['client', 'options'], types: ['agent'], packages: ['@temporalio/worker', '@temporalio/client', 'pg', 'zod'] },
  // Its transport runs in browsers; the rest is pure. Of options it uses the error: the checks need zod.
  ui: { values: ['options'], types: [], packages: ['node:*', '@temporalio/*', 'pg', 'zod', 'ai'] },
  service: {
    values: ['client', 'connect', 'log', 'options', 'ui', 'waiting'],
    types: ['agent', 'store'],
    packages: ['@temporalio/*', 'pg'],
  },
  local: { values: ['connect', 'options'], types: [], packages: ['@temporalio/worker', '@temporalio/workflow'] },
  testing: { values: ['agent', 'connect', 'local', 'worker', 'client', 'models', 'options', 'waiting'], types: ['store'], packages: [] },
  cli: {
    values: ['client', 'connect', 'log', 'options', 'worker', 'local', 'service', 'testing'],
    types: ['agent', 'store'],
    packages: ['@temporalio/*', 'pg'],
  },
}

/** What a place may import, besides `session` and what lies directly in its folder. */
const importedBy = (place) => {
  const { values, types, siblings = [] } = BOUNDARIES[place] ?? { values: [], types: [] }
  return [...values, ...types, ...siblings.map((sibling) => `${place.split('/')[0]}/${sibling}`)]
}
for (const place of Object.keys(BOUNDARIES)) {
  const mutual = importedBy(place).find((other) => importedBy(other).includes(place))
  if (mutual !== undefined)
    throw new Error(`src/${place} and src/${mutual} may import each other: what both need belongs to a third folder.`)
}

/** How deep folders lie in src/: an import's path starts with as many `../` as its file lies deep. */
const DEPTHS = [1, 2, 3]

const foldersIn = (path) =>
  readdirSync(new URL(path, import.meta.url), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
const FOLDERS = foldersIn('src')
/** If one subfolder has a rule, each has one. */
const subfoldersOf = (folder) => (Object.keys(BOUNDARIES).some((place) => place.startsWith(`${folder}/`)) ? foldersIn(`src/${folder}`) : [])
const unruled = FOLDERS.flatMap((folder) => [folder, ...subfoldersOf(folder).map((subfolder) => `${folder}/${subfolder}`)]).filter(
  (place) => !(place in BOUNDARIES),
)
if (unruled.length > 0) throw new Error(`src/${unruled[0]} has no import rule: say in oxlint.config.js what it may import.`)

const OWN_PACKAGE = { group: ['pawl', 'pawl/*'], message: 'Inside src/ import by path: the package name would load a second copy.' }

/** What is neither a path nor of Node; a negated group would let the other patterns' paths pass, too. */
const ANY_PACKAGE = '^([a-mo-zA-Z0-9@]|n[^o]|no[^d]|nod[^e]|node[^:])'

/** What a message of lint says a place may import. */
const allowedIn = ({ values, types, siblings = [] }) =>
  ['session', ...values, ...siblings, ...types.map((other) => `types of ${other}`)].join(', ')

/** The rule of one folder or subfolder for its files of one depth. */
function directionsOf(place, depth) {
  const rule = BOUNDARIES[place]
  const { values, types, siblings = [], packages, packageTypes = [] } = rule
  const [folder, subfolder] = place.split('/')
  const toFolder = '../'.repeat(subfolder === undefined ? depth - 1 : depth)
  const up = `${toFolder}../`
  const others = FOLDERS.filter((other) => other !== folder && other !== 'session' && !values.includes(other))
  const forbidden = folder === 'session' ? [...others, ...values] : others.filter((other) => !types.includes(other))
  const closed = subfolder === undefined ? [] : subfoldersOf(folder).filter((other) => other !== subfolder && !siblings.includes(other))
  const patterns = [
    {
      group: [...forbidden.map((other) => `${up}${other}/**`), ...closed.map((other) => `${toFolder}${other}/**`), `${up}index.ts`],
      message: `Module boundaries: ${place} may import ${allowedIn(rule)}.`,
    },
    OWN_PACKAGE,
  ]
  if (types.length > 0) {
    const message = `Module boundaries: of ${types.join(', ')}, ${place} may import types only (import type).`
    patterns.push({ group: types.map((other) => `${up}${other}/**`), allowTypeImports: true, message })
  }
  if (packages.length > 0) patterns.push({ group: packages, message: `Module boundaries: ${place} must not import this package.` })
  if (packageTypes.length > 0) {
    const which = packageTypes === 'all' ? { regex: ANY_PACKAGE } : { group: packageTypes }
    patterns.push({
      ...which,
      allowTypeImports: true,
      message: `Module boundaries: ${place} may import types of this package only (import type).`,
    })
  }
  return { files: [`src/${place}/${'*/'.repeat(depth - 1)}*.ts`], rules: { 'no-restricted-imports': ['error', { patterns }] } }
}

export default defineConfig({
  plugins: ['eslint', 'typescript', 'import', 'unicorn', 'oxc', 'promise', 'vitest'],
  options: { typeAware: true, denyWarnings: true },
  categories: { correctness: 'error' },
  ignorePatterns: ['dist/**', '.build/**', '.pawl/**'],
  rules: {
    'import/no-cycle': ['error', { ignoreTypes: false }],
    eqeqeq: ['error', 'always', { null: 'ignore' }],
    'typescript/await-thenable': 'error',
    // The rules on imports do not see `import('./part.ts').Part`.
    'typescript/consistent-type-imports': ['error', { disallowTypeAnnotations: true }],
    'typescript/ban-ts-comment': 'error',
    'typescript/no-explicit-any': 'error',
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': 'error',
    // Off: our interfaces are written as methods and made of closures, so taking one out of its object is safe.
    'typescript/unbound-method': 'off',
    'typescript/restrict-template-expressions': 'off',
    'typescript/require-array-sort-compare': 'off',
    'vitest/expect-expect': 'off',
    'vitest/no-conditional-expect': 'off',
    'vitest/no-standalone-expect': 'off',
    'vitest/require-mock-type-parameters': 'off',
    'vitest/valid-title': 'off',
    'vitest/require-to-throw-message': 'off',
    'vitest/valid-expect': ['error', { maxArgs: 2 }],
    'unicorn/no-useless-spread': 'off',
    'no-control-regex': 'off',
    'require-yield': 'off',
    'typescript/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
  },
  overrides: [
    ...Object.keys(BOUNDARIES).flatMap((place) => DEPTHS.map((depth) => directionsOf(place, depth))),
    {
      // What a user declares with must not load a worker's SDK.
      files: ['src/index.ts'],
      rules: {
        'no-restricted-imports': [
          'error',
          {
            patterns: [
              { group: ['./worker/**', '!./worker/definition.ts'], message: 'Of worker, only its definition: the rest loads the SDK.' },
              {
                group: ['activities', 'jobs', 'workflows', 'store', 'client', 'cli', 'local', 'service', 'testing', 'connect'].map(
                  (other) => `./${other}/**`,
                ),
              },
            ],
          },
        ],
      },
    },
    {
      files: ['test/**/*.ts'],
      // What `finally` is given may be asynchronous: it is waited for.
      rules: {
        'typescript/no-base-to-string': 'off',
        'typescript/no-misused-promises': ['error', { checksVoidReturn: { arguments: false } }],
      },
    },
    {
      files: ['console/**/*.{ts,tsx}'],
      rules: {
        'no-restricted-imports': [
          'error',
          {
            patterns: [
              {
                group: FOLDERS.filter((folder) => !['session', 'ui'].includes(folder)).map((folder) => `**/src/${folder}/**`),
                message: 'Module boundaries: the console may import session and ui. It knows the rest by the HTTP interface.',
              },
            ],
          },
        ],
      },
    },
    {
      files: ['examples/**/*.ts'],
      rules: {
        'no-restricted-imports': [
          'error',
          { patterns: [{ group: ['**/src/**', '**/dist/**'], message: 'Examples use the public API, as users do.' }] },
        ],
      },
    },
  ],
})
