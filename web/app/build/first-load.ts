/** The part of the bundler's module information that is used here. */
interface Modules {
  getModuleInfo(id: string): { readonly isEntry: boolean; readonly importers: readonly string[] } | null
}

/**
 * Puts everything that the first paint needs into one chunk: all static imports of the entry, direct or indirect.
 * By default the bundler makes a dozen chunks, which together are larger.
 */
export function firstLoad(id: string, modules: Modules): string | null {
  return isNeededBy((each) => modules.getModuleInfo(each)?.isEntry === true, id, modules) ? 'first' : null
}

/** The view of a page, and what loads pages. */
const PAGE = /\/app\/src\/app\/whole-page\.ts$/

/**
 * Puts everything else that a page needs before it is on screen into one chunk. In twenty chunks it takes as many requests, of which a
 * browser sends six at a time to a server that speaks HTTP/1.1.
 */
export function pageLoad(id: string, modules: Modules): string | null {
  return isNeededBy((each) => PAGE.test(each), id, modules) ? 'page' : null
}

/** Whether a module is one of these, or one of them imports it statically, directly or indirectly. */
function isNeededBy(isTop: (id: string) => boolean, id: string, modules: Modules): boolean {
  const seen = new Set<string>()
  const leadsThere = (each: string): boolean => {
    if (seen.has(each)) return false
    seen.add(each)
    return isTop(each) || (modules.getModuleInfo(each)?.importers.some(leadsThere) ?? false)
  }
  return leadsThere(id)
}
