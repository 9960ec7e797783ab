// The context windows of models whose providers publish them, in tokens.

/** Models with the same context window. */
interface ModelWindow {
  /** The models' names in the API; a name with a date or `-latest` as its suffix means the same model. */
  models: readonly string[]
  /** Tokens of the request and the answer together. */
  tokens: number
}

/**
 * The context windows that the providers had published by 2026-11-25. For a model with several windows, this is the one that every account
 * has. A model that is not listed must declare its own window.
 */
const KNOWN: readonly ModelWindow[] = [
  {
    tokens: 200_000,
    models: [
      ...['claude-3-opus', 'claude-3-haiku', 'claude-3-5-sonnet', 'claude-3-5-haiku', 'claude-3-7-sonnet'],
      ...['claude-opus-4', 'claude-opus-4-0', 'claude-opus-4-1', 'claude-opus-4-5', 'claude-sonnet-4', 'claude-sonnet-4-0'],
      ...['claude-sonnet-4-5', 'claude-haiku-4-5', 'o3', 'o3-mini', 'o4-mini'],
    ],
  },
  {
    tokens: 1_000_000,
    models: [
      ...['claude-opus-4-6', 'claude-opus-4-7', 'claude-opus-4-8', 'claude-sonnet-4-6', 'claude-opus-5', 'claude-sonnet-5'],
      ...['claude-fable-5', 'claude-fable-5-1', 'claude-opus-5-5', 'claude-sonnet-5-5', 'claude-haiku-5-5'],
      ...['claude-fable-5-2', 'claude-mythos-5-2', 'gemini-4-neon', 'gemini-4-hydrogen'],
    ],
  },
  { tokens: 128_000, models: ['gpt-4o', 'gpt-4o-mini'] },
  { tokens: 1_047_576, models: ['gpt-4.1', 'gpt-4.1-mini', 'gpt-4.1-nano'] },
  { tokens: 400_000, models: ['gpt-5', 'gpt-5-mini', 'gpt-5-nano', 'gpt-5.1', 'gpt-5.2'] },
  {
    tokens: 1_050_000,
    models: [
      ...['gpt-5.6', 'gpt-5.6-sol', 'gpt-5.6-terra', 'gpt-5.6-luna', 'gpt-6-astra', 'gpt-6-sol', 'gpt-6-luna'],
      ...['gpt-6.1-sol', 'gpt-6.1-terra', 'gpt-6.2-sol', 'gpt-6.2-astra'],
    ],
  },
  {
    tokens: 1_048_576,
    models: [
      ...['gemini-2.5-pro', 'gemini-2.5-flash', 'gemini-2.5-flash-lite', 'gemini-3.1-pro-preview', 'gemini-3.1-flash-lite'],
      ...['gemini-3.5-flash', 'gemini-3.5-flash-lite', 'gemini-3.6-flash', 'gemini-3.7-flash', 'gemini-3.8-flash'],
    ],
  },
]

const BY_MODEL = new Map(KNOWN.flatMap(({ models, tokens }) => models.map((model) => [model, tokens] as const)))

/** The context window of the model with this name, in tokens; undefined if it is unknown. */
export function contextWindowOf(model: string): number | undefined {
  return BY_MODEL.get(model.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, ''))
}

/** Whether the value is a valid `contextWindow` of a Model. */
export function isContextWindow(given: unknown): given is number {
  return Number.isSafeInteger(given) && Number(given) > 0
}
