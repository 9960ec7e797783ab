// The extension of pawl's own files: `ts` when it runs from its sources.

/** Without the dot. */
export const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
