export { defaultLimits, fetchLimits, parseLimits } from './limits.ts'
export type { Limit, Limits } from './limits.ts'
