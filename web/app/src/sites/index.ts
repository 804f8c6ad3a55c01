/** Shows a folder of web pages as a site on an origin of its own, served from this tab. */
export { siteOrigin } from './origin.ts'
export { isPage, SiteView } from './SiteView.tsx'
