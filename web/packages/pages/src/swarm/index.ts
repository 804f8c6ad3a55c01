export type * from './api.ts'
export { openPage } from './open-page.ts'
export { publish } from './publish.ts'
