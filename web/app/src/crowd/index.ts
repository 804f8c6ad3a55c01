export { Crowd } from './crowd.ts'
export { CrowdView } from './CrowdView.tsx'
