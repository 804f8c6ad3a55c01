import type { LoadLivePage } from './api.ts'

/** For `PageDeps.live`: loads the code of live pages when the first block of a page says that it is live. */
export const loadLive: LoadLivePage = async (root, beginning, store) =>
  (await import('./live/index.ts')).LivePage.resume(root, beginning, store)
