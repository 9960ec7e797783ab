// Lint: what is wrong rather than what is ugly, and which folder of src/ may import which.
import { readdirSync } from 'node:fs'
import { defineConfig } from 'oxlint'

/**
 * The import directions of the house. `values`: folders whose code a folder may use, `types`: folders of which it may name types
 * only, `packages`: packages it must not touch. Every folder may use `session`, which uses nobody.
 */
const HOUSE = {
  session: { values: [], types: [], packages: ['node:*', '@temporalio/*', 'pg', 'zod'] },
  agent: { values: [], types: [], packages: ['@temporalio/*', 'pg'] },
  connect: { values: [], types: ['agent'], packages: ['@temporalio/worker', '@temporalio/core-bridge'] },
  models: { values: ['agent'], types: [], packages: ['@temporalio/*', 'pg'] },
  // Of connect, what both it and the client say while they wait: nothing of Temporal.
  store: { values: ['connect'], types: ['agent'], packages: ['@temporalio/*'] },
  workflows: { values: [], types: ['activities'], packages: ['node:*', '@temporalio/worker', '@temporalio/client', 'pg', 'zod'] },
  activities: { values: ['agent', 'store', 'models'], types: [], packages: ['@temporalio/workflow', 'pg'] },
  worker: { values: ['activities', 'agent', 'connect', 'store', 'models'], types: ['workflows'], packages: ['@temporalio/workflow'] },
  client: {
    values: ['connect', 'store'],
    types: ['agent'],
    packages: ['@temporalio/worker', '@temporalio/activity', '@temporalio/workflow'],
  },
  service: { values: ['client'], types: ['store'], packages: ['@temporalio/*', 'pg'] },
  local: { values: ['connect'], types: [], packages: ['@temporalio/worker', '@temporalio/workflow'] },
  testing: { values: ['agent', 'local', 'worker', 'client', 'models'], types: ['store'], packages: [] },
  cli: {
    values: ['client', 'connect', 'worker', 'local', 'service', 'testing'],
    types: ['agent', 'store'],
    packages: ['@temporalio/*', 'pg'],
  },
}

/** How deep folders lie in src/: an import's path starts with as many `../` as its file lies deep. */
const DEPTHS = [1, 2, 3]

const folders = readdirSync(new URL('src', import.meta.url), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)
const homeless = folders.filter((folder) => !(folder in HOUSE))
if (homeless.length > 0) throw new Error(`src/${homeless[0]} has no import rule: say in oxlint.config.js what it may import.`)

const OWN_PACKAGE = { group: ['pawl', 'pawl/*'], message: 'Inside src/ import by path: the package name would load a second copy.' }

/** The rule of one folder for its files of one depth. */
function directionsOf(folder, depth) {
  const { values, types, packages } = HOUSE[folder]
  const up = '../'.repeat(depth)
  const others = Object.keys(HOUSE).filter((other) => other !== folder && other !== 'session' && !values.includes(other))
  const forbidden = folder === 'session' ? [...others, ...values] : others.filter((other) => !types.includes(other))
  const patterns = [
    {
      group: [...forbidden.map((other) => `${up}${other}/**`), `${up}index.ts`],
      message: `${folder} may import ${['session', ...values].join(', ')}${types.map((other) => `, types of ${other}`).join('')}.`,
    },
    OWN_PACKAGE,
  ]
  if (types.length > 0) {
    const message = `Of ${types.join(', ')}, ${folder} may import types only (import type).`
    patterns.push({ group: types.map((other) => `${up}${other}/**`), allowTypeImports: true, message })
  }
  if (packages.length > 0) patterns.push({ group: packages, message: `${folder} must do without this package.` })
  return { files: [`src/${folder}/${'*/'.repeat(depth - 1)}*.ts`], rules: { 'no-restricted-imports': ['error', { patterns }] } }
}

export default defineConfig({
  plugins: ['eslint', 'typescript', 'import', 'unicorn', 'oxc', 'promise', 'vitest'],
  options: { typeAware: true, denyWarnings: true },
  categories: { correctness: 'error' },
  ignorePatterns: ['dist/**', '.build/**', '.pawl/**'],
  rules: {
    'import/no-cycle': 'error',
    eqeqeq: ['error', 'always', { null: 'ignore' }],
    'typescript/await-thenable': 'error',
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
    ...Object.keys(HOUSE).flatMap((folder) => DEPTHS.map((depth) => directionsOf(folder, depth))),
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
                group: ['activities', 'workflows', 'store', 'client', 'cli', 'local', 'service', 'testing', 'connect'].map(
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
