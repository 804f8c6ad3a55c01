/** The part of the bundler's module information that is used here. */
interface Modules {
  getModuleInfo(id: string): { readonly isEntry: boolean; readonly importers: readonly string[] } | null
}

/**
 * Puts everything that the first paint needs into one chunk: all static imports of the entry, direct or indirect.
 * By default the bundler makes a dozen chunks, which together are larger.
 */
export function firstLoad(id: string, modules: Modules): string | null {
  const seen = new Set<string>()
  const leadsHere = (each: string): boolean => {
    if (seen.has(each)) return false
    seen.add(each)
    const module = modules.getModuleInfo(each)
    return module !== null && (module.isEntry || module.importers.some(leadsHere))
  }
  return leadsHere(id) ? 'first' : null
}
