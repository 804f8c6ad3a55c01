/** Live pages. An open page loads this part when its first block says that it is live. */
export type { HeadExchange } from './heads.ts'
export { LivePage } from './live-page.ts'
export { publishLive } from './publish.ts'
export type { LiveEntry, LiveFeed, LiveSource } from '../api.ts'
