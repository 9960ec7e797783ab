/** A number that follows from the committed code and tests; undefined outside a repository. */
export function commitSeed(): number | undefined
