export type * from './api.ts'
export { loadLive } from './load-live.ts'
export { openPage } from './open-page.ts'
export { publish } from './publish.ts'
