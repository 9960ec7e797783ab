// The programs in docs/ui.md, and the page of examples/ui, are correct for the types of the AI SDK's versions.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { AI_SDK_7 } from '../../ai-sdk-7/paths.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const GUIDE = readFileSync(join(ROOT, 'docs/ui.md'), 'utf8')
const SNIPPETS = [...GUIDE.matchAll(/^```tsx?\n(.*?)^```$/gms)].map(([, text = '']) => text)

/** What the snippets after the first one take from it, or from the reader's program. */
const GIVEN = {
  useChat: "import { useChat } from '@ai-sdk/react'",
  chat: "declare const chat: import('@ai-sdk/react').Chat<import('ai').UIMessage>",
  transport: "declare const transport: import('pawl/ui').PawlChatTransport",
  id: 'declare const id: string',
  messages: "declare const messages: import('pawl/ui').UiMessage[]",
  tenantOf: 'declare function tenantOf(request: Request): Promise<string>',
}

/** The snippet as a module, with what it takes from elsewhere. */
function moduleOf(snippet: string): string {
  const isOwn = (name: string): boolean => new RegExp(`(import|const) (\\{ )?${name}\\b`).test(snippet)
  const given = Object.entries(GIVEN).filter(([name]) => new RegExp(`\\b${name}\\b`).test(snippet) && !isOwn(name))
  return [...given.map(([, declared]) => declared), snippet, 'export {}'].join('\n')
}

/** The compiler's complaints about the modules, with packages in place of those that the modules name. */
function complaintsAbout(modules: ReadonlyMap<string, string>, packages: Record<string, string>): string[] {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2023,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    jsx: ts.JsxEmit.ReactJSX,
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    noEmit: true,
    paths: {
      'pawl/ui': [join(ROOT, 'src/ui/index.ts')],
      ...Object.fromEntries(Object.entries(packages).map(([name, other]) => [name, [other]])),
    },
  }
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile, getSourceFile } = host
  host.fileExists = (path) => modules.has(path) || fileExists(path)
  host.readFile = (path) => modules.get(path) ?? readFile(path)
  host.getSourceFile = (path, language) => {
    const text = modules.get(path)
    return text === undefined ? getSourceFile(path, language) : ts.createSourceFile(path, text, language)
  }
  const program = ts.createProgram([...modules.keys()], options, host)
  return [...modules.keys()].flatMap((path) => {
    const source = program.getSourceFile(path)
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map(
      ({ messageText }) => `${path.slice(ROOT.length)}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    )
  })
}

const PAGE = ['examples/ui/page.tsx', 'examples/ui/question.tsx'].map((path) => join(ROOT, path))
const modules = new Map(SNIPPETS.map((snippet, n) => [join(ROOT, `examples/ui/snippet-${n}.tsx`), moduleOf(snippet)]))
for (const path of PAGE) modules.set(path, readFileSync(path, 'utf8'))

describe('the guide to chat pages', () => {
  it('the guide to chat pages contains programs', () => {
    expect(SNIPPETS.length).toBeGreaterThan(6)
    for (const path of PAGE) expect(modules.get(path)).not.toMatch(/\bas UIMessage/)
  })

  it.each([
    [7, AI_SDK_7],
    [6, {}],
  ])(
    'the guide to chat pages contains programs and a page that compile with version %i of the AI SDK',
    { timeout: 60_000 },
    (_, packages) => {
      expect(complaintsAbout(modules, packages)).toEqual([])
    },
  )

  it('the guide to chat pages is checked by a compiler that notices mistakes', { timeout: 60_000 }, () => {
    const wrong = new Map([[join(ROOT, 'examples/ui/wrong.tsx'), moduleOf('useChat({ id: 1, messages, transport })')]])
    expect(complaintsAbout(wrong, {})).toEqual([expect.stringContaining("Type 'number' is not assignable to type 'string'")])
  })
})
