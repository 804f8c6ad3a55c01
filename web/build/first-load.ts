/** What we use of the bundler's word on a module. */
interface Modules {
  getModuleInfo(id: string): { readonly isEntry: boolean; readonly importers: readonly string[] } | null
}

/**
 * The name of one chunk for everything that the first paint needs: what the entry imports, at whatever distance, other
 * than on demand. Left alone, the bundler makes a dozen of them, which weigh more each for themselves.
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
