// Packages come from the folder that tools/clients.sh printed, wherever the importing file lies.
import { register } from 'node:module';
import { pathToFileURL } from 'node:url';

const parent = pathToFileURL(`${process.env.SALVAGE_CLIENTS}/package.json`).href;
const hooks = `
export async function resolve(specifier, context, next) {
  const isPackage = /^[@a-z]/.test(specifier) && !specifier.startsWith('node:') && !specifier.includes('://');
  const isOurs = isPackage && context.parentURL?.includes('/tests/clients/');
  return next(specifier, isOurs ? { ...context, parentURL: ${JSON.stringify(parent)} } : context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
